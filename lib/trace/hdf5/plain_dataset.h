// A dataset whose elements lie in one piece, found without the library: its header was plain.
#pragma once

#include <memory>
#include <string>

#include "trace/hdf5/plain_header.h"
#include "trace/hdf5/raw_range.h"
#include "trace/source.h"

namespace ttrace::trace::hdf5 {

class File;

class PlainDataset : public Dataset {
 public:
  // `opened` is what lies below `file`, which stays open as long as this lives.
  PlainDataset(std::shared_ptr<const File> file, std::string path, PlainHeader header,
               const OpenFile& opened);

  const DatasetFacts& facts() const override { return facts_; }
  void read(const tensor::Box& box, std::span<std::byte> out) const override;

 private:
  std::shared_ptr<const File> file_;
  std::string path_;
  DatasetFacts facts_;
  OpenFile opened_;
  RawRange raw_;
};

}  // namespace ttrace::trace::hdf5
