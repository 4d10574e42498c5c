// Where the members of a group lie: all of them at once, in the order in which the file has them.
// Looking each up by its name takes ten times as long.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <unordered_map>

#include "trace/hdf5/handle.h"

namespace ttrace::trace::hdf5 {

// Addresses of object headers by the name of the hard link. Soft and external links are not in it.
using GroupListing = std::unordered_map<std::string, haddr_t>;

// Nothing if the group has more than `most` members, or cannot be listed. Hold a LibraryLock.
std::optional<GroupListing> list_group(hid_t group, std::size_t most);

// Of a member, or HADDR_UNDEF.
haddr_t address_in(const GroupListing& listing, const std::string& member);

// Where the hard link `info` leads to, in a file that `object` is in. Hold a LibraryLock.
haddr_t header_address(hid_t object, const H5L_info_t& info);

}  // namespace ttrace::trace::hdf5
