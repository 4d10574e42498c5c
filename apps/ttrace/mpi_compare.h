// One comparison in all processes that mpirun has started.
#pragma once

#include "comparison.h"
#include "mpi_ranks.h"
#include "report_output.h"
#include "shared_work.h"

namespace ttrace::app {

// Measures this rank's share; rank 0 then reports on all and returns the exit code of the verdict,
// the others return 0. A rank that fails throws, and its end is the end of the job.
int compare_as_rank(const MpiRank& me, const ComparisonFlags& asked, const SharedWorkFlags& work,
                    const ReportFlags& report);

}  // namespace ttrace::app
