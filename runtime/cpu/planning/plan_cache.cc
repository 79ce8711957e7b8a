#include "runtime/cpu/planning/plan_cache.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include <xxhash.h>

#include "graph/file.h"

namespace rewright::cpu {

namespace {

constexpr std::string_view kMagic{"rewright plan 1\n"};
constexpr std::size_t kHeaderBytes = 16 + 3 * 8;
constexpr std::size_t kEntryAlignment = 64;
constexpr std::size_t kEntryBytes = 4 * 8;

std::size_t aligned(std::size_t bytes) { return (bytes + kEntryAlignment - 1) / kEntryAlignment * kEntryAlignment; }

void put(std::string& to, std::uint64_t word) {
  for (int byte = 0; byte < 8; ++byte) to += static_cast<char>(word >> (8 * byte));
}

// Reads words and texts from untrusted bytes.
class TableReader {
 public:
  explicit TableReader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::optional<std::uint64_t> word() {
    if (bytes_.size() < 8) return std::nullopt;
    std::uint64_t word = 0;
    for (int byte = 0; byte < 8; ++byte) word |= std::to_integer<std::uint64_t>(bytes_[byte]) << (8 * byte);
    bytes_ = bytes_.subspan(8);
    return word;
  }
  std::optional<std::string_view> text() {
    const auto size = word();
    if (!size || *size > bytes_.size()) return std::nullopt;
    const std::string_view text(reinterpret_cast<const char*>(bytes_.data()), *size);
    bytes_ = bytes_.subspan(*size);
    return text;
  }
  std::size_t left() const { return bytes_.size(); }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace

PlanCache::PlanCache(std::filesystem::path file, std::string key) : file_(std::move(file)), key_(std::move(key)) {
  std::error_code error;
  if (!std::filesystem::exists(file_, error)) return;
  const FileBytes found = map_file(file_);
  if (!found.text().starts_with(kMagic.substr(0, std::min(kMagic.size(), found.bytes.size()))))
    throw Error(ErrorCode::kBadInput, "is not a prepared plan", file_.string(), "it is left as it is; name another file");
  read(found.owner, found.bytes);
}

void PlanCache::read(const std::shared_ptr<const void>& owner, std::span<const std::byte> bytes) {
  const auto damaged = [&] {
    problem_ = "is damaged, and made anew";
    entries_.clear();
  };
  if (bytes.size() < kHeaderBytes) return damaged();
  TableReader header(bytes.subspan(kMagic.size(), kHeaderBytes - kMagic.size()));
  const std::uint64_t file_bytes = *header.word(), table_bytes = *header.word(), table_hash = *header.word();
  if (file_bytes != bytes.size() || table_bytes > bytes.size() - kHeaderBytes) return damaged();
  const std::span<const std::byte> table = bytes.subspan(kHeaderBytes, table_bytes);
  if (XXH3_64bits(table.data(), table.size()) != table_hash) return damaged();
  TableReader reader(table);
  const auto key = reader.text();
  const auto count = reader.word();
  if (!key || !count || *count != reader.left() / kEntryBytes || reader.left() % kEntryBytes != 0) return damaged();
  if (*key != key_) {
    problem_ = "is for another model, machine or version, and made anew";
    return;
  }
  for (std::uint64_t e = 0; e < *count; ++e) {
    const std::uint64_t name = *reader.word(), offset = *reader.word(), size = *reader.word(), hash = *reader.word();
    if (offset % kEntryAlignment != 0 || offset > bytes.size() || size > bytes.size() - offset) return damaged();
    entries_[name] = {offset, size, hash};
  }
  owner_ = owner;
  mapped_ = bytes;
  // Everything is used at once: one call replaces a page fault for every few pages.
  const auto page = reinterpret_cast<std::uintptr_t>(bytes.data());
  ::madvise(reinterpret_cast<void*>(page), bytes.size(), MADV_POPULATE_READ);
}

Tensor PlanCache::find(std::uint64_t name) {
  if (const auto used = used_.find(name); used != used_.end()) return used->second;
  const auto found = entries_.find(name);
  if (found == entries_.end()) return {};
  const auto [offset, bytes, hash] = found->second;
  if (XXH3_64bits(mapped_.data() + offset, bytes) != hash) {
    problem_ = "is damaged, and made anew";
    entries_.erase(found);
    return {};
  }
  return used_.emplace(name, Tensor(DataType::kUint8, {static_cast<std::int64_t>(bytes)}, owner_, mapped_.data() + offset))
      .first->second;
}

void PlanCache::add(std::uint64_t name, Tensor bytes) {
  if (closed_) return;
  used_.insert_or_assign(name, std::move(bytes));
  changed_ = true;
}

void PlanCache::save() const {
  std::string table;
  put(table, key_.size());
  table += key_;
  put(table, used_.size());
  std::size_t at = aligned(kHeaderBytes + table.size() + used_.size() * kEntryBytes);
  for (const auto& [name, tensor] : used_) {
    const auto bytes = tensor.bytes();
    put(table, name);
    put(table, at);
    put(table, bytes.size());
    put(table, XXH3_64bits(bytes.data(), bytes.size()));
    at = aligned(at + bytes.size());
  }
  std::string header(kMagic);
  put(header, at);
  put(header, table.size());
  put(header, XXH3_64bits(table.data(), table.size()));
  FileWriter writer(file_);
  const auto fill_up = [&] { writer.write(std::string(aligned(writer.written()) - writer.written(), '\0')); };
  writer.write(header);
  writer.write(table);
  for (const auto& [name, tensor] : used_) {
    fill_up();
    writer.write(tensor.bytes());
  }
  fill_up();
  writer.commit();
}

std::uint64_t cache_name(std::uint64_t value, std::string_view how) {
  return XXH3_64bits_withSeed(how.data(), how.size(), value);
}

}  // namespace rewright::cpu
