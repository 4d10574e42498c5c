// The command that `ttrace watch` runs where a step diverges for the first time: it reads the
// report and the headline, while the watching goes on.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>

namespace ttrace::app {

struct FirstDivergence {
  std::string run;
  std::uint64_t step = 0;
  std::string headline;
  // The report in JSON: either a file, or the text, which is written to a file for the command.
  std::string report_file;
  std::string report;
};

class DivergenceCommand {
 public:
  // `command`: a shell's command line, or empty for none. `limit`: seconds. `stopping`: once true,
  // the command is ended; must outlive this.
  DivergenceCommand(std::string command, double limit, const std::atomic<bool>& stopping);
  // Waits for the command.
  ~DivergenceCommand();
  DivergenceCommand(const DivergenceCommand&) = delete;
  DivergenceCommand& operator=(const DivergenceCommand&) = delete;

  // Starts the command, after waiting for one that still runs. Its end, with what it printed, is
  // reported on stderr and changes no verdict.
  void start(FirstDivergence divergence);

 private:
  void run(const FirstDivergence& divergence) const;

  std::string command_;
  double limit_;
  const std::atomic<bool>& stopping_;
  std::thread thread_;
};

}  // namespace ttrace::app
