// Finds where the members of a group lie, all at once and in the order of the file. Looking each up
// by its name takes ten times as long.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "trace/hdf5/library/library.h"

namespace ttrace::trace::hdf5 {

// The members that are hard links; soft and external ones are not in it. A run of thousands of
// ranks has millions, so names are not kept: 16 bytes each.
class GroupListing {
 public:
  void reserve(std::size_t members) { members_.reserve(members); }
  // All members, then settle() once, then address_of().
  void add(std::string_view name, haddr_t address);
  void settle();

  // Of the object header; HADDR_UNDEF if there is no such hard link, or two names cannot be told
  // apart.
  haddr_t address_of(std::string_view name) const;
  std::size_t size() const { return members_.size(); }

 private:
  std::vector<std::pair<std::uint64_t, haddr_t>> members_;  // by the hash of the name
};

// Nothing if the group has more than `most` members, or cannot be listed. Hold a LibraryLock.
std::optional<GroupListing> list_group(hid_t group, std::size_t most);

// Where the hard link `info` leads to, in a file that `object` is in. Hold a LibraryLock.
haddr_t header_address(hid_t object, const H5L_info_t& info);

}  // namespace ttrace::trace::hdf5
