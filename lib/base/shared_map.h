// A map whose copies share its members until one of them is changed. The tensors of a trace have
// few different layouts: as maps of their own, they would take most of the memory of a manifest.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <map>
#include <utility>

#include "base/shared_value.h"

namespace ttrace::base {

// Has the members of std::map that are needed; its iterators and find() are for reading only.
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
  SharedMap(Map map) : map_(std::move(map)) {}
  SharedMap(std::initializer_list<value_type> members) : SharedMap(Map(members)) {}

  operator const Map&() const { return map(); }
  const Map& map() const { return *map_; }

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
  void clear() { map_ = {}; }

  bool operator==(const SharedMap& other) const {
    return map_.shares_with(other.map_) || map() == other.map();
  }

 private:
  Map& own() { return map_.change(); }

  SharedValue<Map> map_;
};

}  // namespace ttrace::base
