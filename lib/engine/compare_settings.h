// The settings of both optimizers, compared as data.
#pragma once

#include <vector>

#include "engine/pairing.h"
#include "engine/selection.h"
#include "report/compare_report.h"

namespace ttrace::engine {

// Every setting of every selected parameter and step that differs, those alike together; by step
// and name. A parameter that only one optimizer has in a group is a difference ("parameter group").
// Steps that one of the manifests says nothing of are not compared. Parameters are paired as
// `pairs` pairs their tensors (a map may have renamed them), others by their names. results[i]
// belongs to pairs[i]: what a rule skips is left out, and so is a clipping that one manifest says
// nothing of where all of its updates match. `updates` are numbers of pairs.
std::vector<report::SettingDifference> compare_settings(const trace::Manifest& reference,
                                                        const trace::Manifest& candidate,
                                                        const Selection& selection,
                                                        const std::vector<Pair>& pairs,
                                                        const std::vector<report::Result>& results);

}  // namespace ttrace::engine
