// Routing flips in the JSON report: schemas/report-v2.md.
#pragma once

#include <nlohmann/json.hpp>

#include "report/routing.h"

namespace ttrace::report {

nlohmann::ordered_json router_json(const RouterFlips& router);

}  // namespace ttrace::report
