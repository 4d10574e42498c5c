#include "trace/hdf5/group_listing.h"

#if H5_VERSION_GE(1, 12, 0)
#include <H5VLnative.h>
#endif

namespace ttrace::trace::hdf5 {
namespace {

struct Listing {
  GroupListing members;
  std::size_t left = 0;
};

herr_t add_member(hid_t group, const char* name, const H5L_info_t* info, void* to) {
  auto& listing = *static_cast<Listing*>(to);
  // A damaged group may have more members than it says.
  if (listing.left-- == 0) return -1;
  if (info->type != H5L_TYPE_HARD) return 0;
  try {
    listing.members.emplace(name, header_address(group, *info));
  } catch (const std::bad_alloc&) {
    return -1;  // an exception may not pass through the library
  }
  return 0;
}

}  // namespace

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
  return std::move(listing.members);
}

haddr_t address_in(const GroupListing& listing, const std::string& member) {
  const auto found = listing.find(member);
  return found == listing.end() ? HADDR_UNDEF : found->second;
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
