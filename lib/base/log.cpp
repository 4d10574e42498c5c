#include "base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>

#include "base/text.h"

namespace ttrace::base {
namespace {

spdlog::logger& logger() {
  static const std::shared_ptr<spdlog::logger> instance = [] {
    auto made = std::make_shared<spdlog::logger>("ttrace",
                                                 std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("ttrace: %v");
    made->set_level(spdlog::level::warn);
    return made;
  }();
  return *instance;
}

}  // namespace

void set_log_level(LogLevel level) {
  switch (level) {
    case LogLevel::kQuiet:
      return logger().set_level(spdlog::level::err);
    case LogLevel::kNormal:
      return logger().set_level(spdlog::level::warn);
    case LogLevel::kVerbose:
      return logger().set_level(spdlog::level::info);
  }
}

bool is_quiet() { return !logger().should_log(spdlog::level::warn); }

void warn(std::string_view message) { logger().warn("warning: {}", shortened(message)); }

void warn_even_if_quiet(std::string_view message) {
  logger().error("warning: {}", shortened(message));
}

void announce(std::string_view message) { logger().warn("{}", shortened(message)); }

void inform(std::string_view message) { logger().info("{}", shortened(message)); }

void report_error(std::string_view message) { logger().error("{}", shortened(message)); }

}  // namespace ttrace::base
