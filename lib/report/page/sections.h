// The parts of a page that are there without JavaScript, and the data of those that are not.
#pragma once

#include <string>

#include "report/page/markup.h"
#include "report/page/page_answer.h"

namespace ttrace::report {

// Verdict, sentence, what was not checked, how many tensors of which outcome.
Markup page_head(const PageAnswer& answer);
// Which runs, and the command that repeats the answer.
Markup page_runs(const PageAnswer& answer);
// A card per finding.
Markup page_findings(const PageAnswer& answer);
// The shards of the finding's tensor, coloured by their share of its squared error.
Markup shard_grid(const PageFinding& finding);
// The hundred tensors that used most of what they are allowed.
Markup worst_tensors(const PageAnswer& answer);

// "0/-/main_grad/fc.weight/0/0" as a link to the tensor.
Markup tensor_link(const std::string& id);

// All tensors column by column, and what the pictures need of findings: JSON.
std::string page_columns(const PageAnswer& answer);

}  // namespace ttrace::report
