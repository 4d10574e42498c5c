#include "compare/shard_reader.h"

#include "base/error.h"
#include "compare/flat_reader.h"
#include "compare/stored_values.h"

namespace ttrace::compare {

ShardReader::ShardReader(const trace::Source& source, const trace::TensorEntry& entry,
                         std::uint64_t rank, const layout::Holding& held, Between between)
    : source_(&source),
      entry_(&entry),
      rank_(rank),
      between_(between),
      array_(held.shape),
      range_(held.range) {
  if (const auto problem = source.rank_problem(rank)) throw base::input_error(*problem);
  const std::string path = dataset_path(entry.key);
  dataset_ = source.open(rank, path);
  const trace::DatasetFacts& facts = dataset_->facts();
  const tensor::Shape shape = held.dataset_shape();
  if (facts.dtype != entry.dtype || facts.shape != shape) {
    throw base::input_error(
        source.rank_file(rank), ": ", path, ": dataset is ", tensor::to_string(facts.shape), " ",
        tensor::dtype_short_name(facts.dtype), ", the manifest's placement gives rank ", rank, " ",
        tensor::to_string(shape), " ", tensor::dtype_short_name(entry.dtype),
        "; give its layout with --layout, or correct it in the collector and dump again");
  }
  close_if_wanted();
}

void ShardReader::close_if_wanted() {
  if (between_ == Between::kClose) dataset_.reset();
}

void ShardReader::read_bits(const tensor::Box& box, std::vector<std::byte>& bits) {
  bits.resize(tensor::volume(box) * tensor::element_bytes(entry_->dtype));
  if (!dataset_) dataset_ = source_->open(rank_, dataset_path(entry_->key));
  if (range_) {
    bytes_read_ += read_flat_box(*dataset_, array_, *range_, box, bits);
  } else {
    dataset_->read(box, bits);
    bytes_read_ += bits.size();
  }
  close_if_wanted();
}

void ShardReader::decode(std::span<const std::byte> bits, std::span<double> out) const {
  compare::decode({bits, entry_->dtype, entry_->scale}, out);
}

}  // namespace ttrace::compare
