#include "report/routing_json.h"

#include "report/parts_json.h"

namespace ttrace::report {

nlohmann::ordered_json router_json(const RouterFlips& router) {
  nlohmann::ordered_json out{
      {"key", key_json(router.key)},       {"tokens", router.tokens},
      {"experts", router.experts},         {"flipped", router.flipped},
      {"unexplained", router.unexplained}, {"scores", router.scores},
      {"noise", number(router.noise)},     {"largest_gap", number(router.largest_gap)},
      {"after_flips", router.follows}};
  if (router.unexplained > 0) {
    out["first_unexplained"] = {{"token", router.first_unexplained}, {"why", router.why}};
  }
  return out;
}

}  // namespace ttrace::report
