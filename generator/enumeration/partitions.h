// Records partitioned by a hash: in memory up to a limit, then in a file, as runs sorted by partition.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

#include "generator/enumeration/append_file.h"

namespace rewright::generator {

// A record is copied as bytes. The highest bits of its hash, spread(), are its partition.
template <class Record>
class Partitions {
 public:
  static_assert(std::is_trivially_copyable_v<Record>);

  // 2^bits partitions, with at most `capacity` records in memory.
  Partitions(unsigned bits, std::size_t capacity, std::shared_ptr<AppendFile> file)
      : bits_(bits), capacity_(std::max<std::size_t>(capacity, 1)), file_(std::move(file)), segments_(count()) {
    buffer_.reserve(capacity_);  // pages that are never touched take no memory
  }

  std::size_t count() const { return std::size_t{1} << bits_; }
  std::size_t partition(const Record& record) const { return static_cast<std::size_t>(record.spread() >> (64 - bits_)); }

  void add(const Record& record) {
    if (buffer_.size() == capacity_) spill();
    buffer_.push_back(record);
    sorted_ = false;
  }

  // Writes all records in memory to the file.
  void spill() {
    sort();
    for (std::size_t begin = 0, end = 0; begin < buffer_.size(); begin = end) {
      const std::size_t p = partition(buffer_[begin]);
      while (end < buffer_.size() && end - begin < kRun && partition(buffer_[end]) == p) ++end;
      const std::string_view bytes(reinterpret_cast<const char*>(&buffer_[begin]), (end - begin) * sizeof(Record));
      segments_[p].push_back({file_->append(static_cast<std::uint32_t>(p), bytes), end - begin});
    }
    buffer_.clear();
  }
  AppendFile& file() { return *file_; }
  void restore(std::uint64_t length) {
    file_->restore(length, [&](std::uint32_t p, std::uint64_t at, std::string_view contents) {
      segments_.at(p).push_back({at, contents.size() / sizeof(Record)});
    });
  }

  // Called after the last record was added; reduces the memory to what the records need.
  void finish() {
    if (file_->length() > 0) {
      spill();
      std::vector<Record>().swap(buffer_);
    }
    sort();
  }
  // Passes all records of a partition to `take`, in pieces.
  template <class Take>
  void each(std::size_t p, const Take& take) {
    sort();
    std::vector<Record> piece;
    for (const Segment& s : segments_[p]) {
      piece.resize(s.records);
      file_->read(s.at, piece.data(), s.records * sizeof(Record));
      take(std::span<const Record>(piece));
    }
    const auto first = std::partition_point(buffer_.begin(), buffer_.end(), [&](const Record& r) { return partition(r) < p; });
    const auto last = std::partition_point(first, buffer_.end(), [&](const Record& r) { return partition(r) == p; });
    if (first != last) take(std::span<const Record>(first, last));
  }
  void clear() {
    std::vector<Record>().swap(buffer_);
    segments_.assign(count(), {});
    file_->clear();
  }

 private:
  static constexpr std::size_t kRun = 1 << 15;
  struct Segment {
    std::uint64_t at;
    std::size_t records;
  };

  void sort() {
    if (!sorted_)
      std::sort(buffer_.begin(), buffer_.end(), [](const Record& a, const Record& b) { return a.spread() < b.spread(); });
    sorted_ = true;
  }

  unsigned bits_;
  std::size_t capacity_;
  std::shared_ptr<AppendFile> file_;
  std::vector<Record> buffer_;
  std::vector<std::vector<Segment>> segments_;
  bool sorted_ = true;
};

}  // namespace rewright::generator
