#include "trace/hdf5/library/group_listing.h"

#if H5_VERSION_GE(1, 12, 0)
#include <H5VLnative.h>
#endif

#include <algorithm>
#include <functional>
#include <new>

namespace ttrace::trace::hdf5 {
namespace {

struct Listing {
  GroupListing members;
  std::size_t left = 0;
};

herr_t add_member(hid_t group, const char* name, const H5L_info_t* info, void* to) {
  auto& listing = *static_cast<Listing*>(to);
  // A damaged group may have more members than it says.
  if (listing.left == 0) return -1;
  --listing.left;
  if (info->type != H5L_TYPE_HARD) return 0;
  try {
    listing.members.add(name, header_address(group, *info));
  } catch (const std::bad_alloc&) {
    return -1;  // an exception may not pass through the library
  }
  return 0;
}

std::uint64_t hash_of(std::string_view name) { return std::hash<std::string_view>{}(name); }

}  // namespace

void GroupListing::add(std::string_view name, haddr_t address) {
  members_.emplace_back(hash_of(name), address);
}

void GroupListing::settle() { std::sort(members_.begin(), members_.end()); }

haddr_t GroupListing::address_of(std::string_view name) const {
  const std::uint64_t hash = hash_of(name);
  const auto [first, last] =
      std::equal_range(members_.begin(), members_.end(), std::pair(hash, haddr_t{0}),
                       [](const auto& a, const auto& b) { return a.first < b.first; });
  return last - first == 1 ? first->second : HADDR_UNDEF;
}

std::optional<GroupListing> list_group(hid_t group, std::size_t most) {
  H5G_info_t info;
  if (H5Gget_info(group, &info) < 0 || info.nlinks > most) {
    H5Eclear2(H5E_DEFAULT);
    return std::nullopt;
  }
  Listing listing{{}, info.nlinks};
  listing.members.reserve(info.nlinks);
  if (H5Literate(group, H5_INDEX_NAME, H5_ITER_NATIVE, nullptr, add_member, &listing) < 0) {
    H5Eclear2(H5E_DEFAULT);
    return std::nullopt;
  }
  listing.members.settle();
  return std::move(listing.members);
}

haddr_t header_address(hid_t object, const H5L_info_t& info) {
#if H5_VERSION_GE(1, 12, 0)
  haddr_t address = HADDR_UNDEF;
  H5VLnative_token_to_addr(object, info.u.token, &address);
  return address;
#else
  static_cast<void>(object);
  return info.u.address;
#endif
}

}  // namespace ttrace::trace::hdf5
