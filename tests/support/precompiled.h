// Compiled once for all tests: what most of them include.
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <variant>
#include <vector>

#include "base/refusal.h"
#include "engine/compare_traces.h"
#include "measure/cpu/cpu_backend.h"
#include "support/catch.h"
#include "support/memory_trace.h"
