// A map whose copies share its members until one of them is changed. The tensors of a trace have
// few different layouts: as maps of their own, they would take most of the memory of a manifest.
#pragma once

#include <initializer_list>
#include <map>
#include <memory>
#include <utility>

namespace ttrace::base {

// Has the members of std::map that are needed, and those that change nothing only for reading.
template <typename Key, typename Value>
class SharedMap {
 public:
  using Map = std::map<Key, Value>;
  using key_type = Key;
  using mapped_type = Value;
  using value_type = typename Map::value_type;
  using const_iterator = typename Map::const_iterator;

  SharedMap() = default;
  // Implicit: any map may become one.
  SharedMap(Map map) {
    if (!map.empty()) map_ = std::make_shared<Map>(std::move(map));
  }
  SharedMap(std::initializer_list<value_type> members) : SharedMap(Map(members)) {}

  operator const Map&() const { return map(); }
  const Map& map() const {
    static const Map kEmpty;
    return map_ ? *map_ : kEmpty;
  }

  bool empty() const { return map().empty(); }
  std::size_t size() const { return map().size(); }
  const_iterator begin() const { return map().begin(); }
  const_iterator end() const { return map().end(); }
  const_iterator find(const Key& key) const { return map().find(key); }
  bool contains(const Key& key) const { return map().contains(key); }
  const Value& at(const Key& key) const { return map().at(key); }

  Value& operator[](const Key& key) { return own()[key]; }
  template <typename... Arguments>
  void emplace(Arguments&&... arguments) {
    own().emplace(std::forward<Arguments>(arguments)...);
  }
  void insert_or_assign(const Key& key, Value value) {
    own().insert_or_assign(key, std::move(value));
  }
  void erase(const Key& key) {
    if (contains(key)) own().erase(key);
  }
  void clear() { map_.reset(); }

  bool operator==(const SharedMap& other) const {
    return map_ == other.map_ || map() == other.map();
  }

 private:
  Map& own() {
    if (!map_) {
      map_ = std::make_shared<Map>();
    } else if (map_.use_count() > 1) {
      map_ = std::make_shared<Map>(*map_);
    }
    return *map_;
  }

  std::shared_ptr<Map> map_;  // or null: empty
};

}  // namespace ttrace::base
