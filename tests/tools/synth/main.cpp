// Fills the manifest of a trace with numbers: synthetic traces for tests and benchmarks.
// tests/support/synth.py calls it.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <string>

#include "base/error.h"
#include "base/files.h"
#include "tools/synth/make_trace.h"
#include "trace/hdf5/trace_files.h"
#include "trace/hdf5/writer.h"

namespace ttrace::synth {
namespace {

// Whole tensors with noise imitate a noise run of the reference.
void tell_of_noise(const Settings& settings, trace::Manifest& manifest) {
  if (settings.noise == 0) return;
  double epsilon = 0;
  for (const trace::TensorEntry& entry : manifest.tensors) {
    epsilon = std::max(epsilon, tensor::epsilon(entry.dtype));
  }
  manifest.run.noise = trace::NoiseFacts{settings.noise_seed, settings.noise * epsilon, "*"};
}

void run(Request& request, const std::string& output) {
  const std::string text{std::istreambuf_iterator<char>(std::cin), {}};
  request.manifest = trace::parse_manifest(text, "the manifest");
  if (output.ends_with(".h5")) {
    tell_of_noise(request.settings, request.manifest);
    return make_trace(request, [&output](std::uint64_t) {
      return trace::hdf5::create_file(output, base::Existing::kKept);
    });
  }
  const std::filesystem::path folder(output);
  if (!std::filesystem::create_directory(folder)) {
    throw base::input_error(output, ": is there already");
  }
  make_trace(request, [&folder](std::uint64_t rank) {
    return trace::hdf5::create_file(folder / trace::hdf5::rank_file_name(rank),
                                    base::Existing::kKept, rank);
  });
  base::NewFile(folder / "manifest.json", base::Existing::kKept)
      .store(trace::manifest_text(request.manifest));
}

}  // namespace
}  // namespace ttrace::synth

int main(int argc, char** argv) {
  ttrace::synth::Request request;
  std::string output;
  CLI::App app("Makes the trace of the manifest on standard input, with synthetic numbers.");
  app.add_option("OUT", output, "NAME.h5: one file, of one rank; else a new directory")->required();
  app.add_option("--seed", request.settings.seed, "other numbers");
  app.add_option("--noise", request.settings.noise,
                 "multiply every value by 1 + NOISE·ε·u before it is rounded, u in [-1, 1)");
  app.add_option("--noise-seed", request.settings.noise_seed, "another noise of the same size");
  app.add_option("--deflate", request.deflate, "compress, level 0 to 9");
  app.add_flag("--sparse", request.sparse, "zeros that are not written and take no disk");
  CLI11_PARSE(app, argc, argv);
  try {
    ttrace::synth::run(request, output);
  } catch (const std::exception& error) {
    std::cerr << "ttrace_synth: " << error.what() << "\n";
    return 2;
  }
  return 0;
}
