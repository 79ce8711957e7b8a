#include "runtime/training/data/csv.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "graph/file.h"

namespace rewright::training {

namespace {

// Reads cells row by row, with the line number of each row.
class Rows {
 public:
  Rows(const std::filesystem::path& file, std::string_view text) : file_(file.string()), text_(text) {
    if (text_.starts_with("\xef\xbb\xbf")) text_.remove_prefix(3);  // a byte order mark
  }

  // Returns false at the end of the file. Skips empty lines.
  bool next(std::vector<std::string>& cells) {
    while (!text_.empty() && (text_.front() == '\n' || text_.starts_with("\r\n"))) end_of_line();
    if (text_.empty()) return false;
    row_ = line_;
    cells.clear();
    do cells.push_back(cell());
    while (separator());
    return true;
  }

  std::size_t line() const { return row_; }
  [[noreturn]] void refuse(const std::string& why) const {
    throw Error(ErrorCode::kBadInput, why, file_ + ":" + std::to_string(row_));
  }

 private:
  std::string cell() {
    std::string result;
    if (!text_.starts_with('"')) {
      const std::size_t end = std::min(text_.find_first_of(",\r\n"), text_.size());
      result = text_.substr(0, end);
      text_.remove_prefix(end);
      return result;
    }
    for (text_.remove_prefix(1);; text_.remove_prefix(1)) {
      if (text_.empty()) refuse("a quoted cell does not end");
      if (text_.starts_with("\"\"")) {
        text_.remove_prefix(1);
      } else if (text_.front() == '"') {
        text_.remove_prefix(1);
        return result;
      }
      line_ += text_.front() == '\n';
      result += text_.front();
    }
  }

  // Does another cell follow in this row?
  bool separator() {
    if (text_.starts_with(',')) {
      text_.remove_prefix(1);
      return true;
    }
    if (!text_.empty() && !end_of_line()) refuse("a quoted cell is followed by more than a comma");
    return false;
  }

  bool end_of_line() {
    const std::size_t width = text_.starts_with("\r\n") ? 2 : text_.starts_with('\n') || text_.starts_with('\r') ? 1 : 0;
    text_.remove_prefix(width);
    line_ += width > 0;
    return width > 0;
  }

  std::string file_;
  std::string_view text_;
  std::size_t line_ = 1, row_ = 1;
};

double number(const Rows& rows, const std::string& column, std::string_view cell) {
  while (cell.starts_with(' ')) cell.remove_prefix(1);
  while (cell.ends_with(' ')) cell.remove_suffix(1);
  if (cell.empty()) rows.refuse("column '" + column + "' is empty");
  const std::string_view shown = cell.substr(0, 40);
  if (cell.starts_with('+')) cell.remove_prefix(1);
  double value = 0;
  const auto [rest, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (error != std::errc() || rest != cell.data() + cell.size() || !std::isfinite(value))
    rows.refuse("column '" + column + "' holds '" + std::string(shown) + "', which is not a finite number");
  return value;
}

// The sizes [N, ...] with the number of examples inserted. Throws unless there are as many columns as numbers in an example.
Sizes sizes_of(const TensorType& type, std::int64_t examples, std::int64_t columns, const std::string& name,
               const std::string& file) {
  Sizes sizes{examples};
  std::int64_t each = 1;
  for (std::size_t axis = 1; axis < type.shape.size(); ++axis) {
    if (!type.shape[axis].is_constant())
      throw Error(ErrorCode::kBadInput, "the model leaves the sizes of an example of '" + name + "' open", file);
    sizes.push_back(type.shape[axis].value());
    each *= sizes.back();
  }
  if (type.shape.empty() || each != columns)
    throw Error(ErrorCode::kBadInput,
                "has " + std::to_string(columns) + " columns for '" + name + "', which is " + to_string(type), file);
  return sizes;
}

// The columns that form one tensor.
struct Group {
  std::string name;
  TensorType type;
  std::vector<std::size_t> columns;
  std::vector<double> values;
};

std::vector<Group> grouped(const std::vector<std::string>& header, const WantedData& wanted, const Rows& rows) {
  const auto find = [&](const std::string& name) {
    const auto at = std::find(header.begin(), header.end(), name);
    if (at == header.end()) rows.refuse("there is no column '" + name + "'");
    if (std::find(at + 1, header.end(), name) != header.end()) rows.refuse("there are two columns '" + name + "'");
    return static_cast<std::size_t>(at - header.begin());
  };
  const std::size_t target = find(wanted.target_column);
  std::vector<Group> groups;
  for (const auto& [name, type] : wanted.inputs) {
    Group group{name, type, {}, {}};
    if (wanted.inputs.size() > 1) {
      group.columns.push_back(find(name));
    } else {
      for (std::size_t c = 0; c < header.size(); ++c)
        if (c != target) group.columns.push_back(c);
    }
    groups.push_back(std::move(group));
  }
  groups.push_back({"targets", wanted.targets, {target}, {}});
  return groups;
}

}  // namespace

Dataset read_csv(const std::filesystem::path& file, const WantedData& wanted) {
  const FileBytes content = map_file(file);
  Rows rows(file, content.text());
  std::vector<std::string> header, cells;
  if (!rows.next(header)) throw Error(ErrorCode::kBadInput, "is empty", file.string());
  std::vector<Group> groups = grouped(header, wanted, rows);
  std::vector<std::size_t> lines;
  while (rows.next(cells)) {
    if (cells.size() != header.size())
      rows.refuse("has " + std::to_string(cells.size()) + " cells, the first row names " + std::to_string(header.size()));
    for (Group& group : groups)
      for (const std::size_t c : group.columns) {
        const double value = number(rows, header[c], cells[c]);
        if (!is_real(group.type.type) && value != std::floor(value))
          rows.refuse("column '" + header[c] + "' holds " + cells[c] + ", must be a whole number");
        group.values.push_back(value);
      }
    lines.push_back(rows.line());
  }
  const auto examples = static_cast<std::int64_t>(lines.size());
  const auto place = [name = file.string(), lines = std::make_shared<const std::vector<std::size_t>>(std::move(lines))](
                         std::int64_t n) { return name + ":" + std::to_string((*lines)[static_cast<std::size_t>(n)]); };
  Dataset::Columns columns;
  for (const Group& group : groups) {
    const Sizes sizes =
        sizes_of(group.type, examples, static_cast<std::int64_t>(group.columns.size()), group.name, file.string());
    columns.emplace(group.name, make_column(Tensor::from_reals(group.type.type, sizes, group.values), group.name, place));
  }
  return Dataset(std::move(columns));
}

}  // namespace rewright::training
