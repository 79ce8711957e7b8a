#include "api/given_sizes.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>

namespace rewright::api {

namespace {

struct Range {
  std::int64_t first = 0, last = 0, step = 1;
};

// Reads one shape: numbers and ranges with x between them, and a weight. Nothing where it is none.
class ShapeReader {
 public:
  explicit ShapeReader(std::string_view text) : text_(text) {}

  std::optional<std::vector<GivenShape>> read() {
    std::vector<Range> ranges;
    double weight = 1;
    bool is_weighted = false;
    while (!text_.empty() && text_.front() != '*') {
      if (!ranges.empty() && !skip("x")) return std::nullopt;
      const std::optional<Range> range = read_range();
      if (!range) return std::nullopt;
      ranges.push_back(*range);
    }
    if (skip("*")) {
      is_weighted = true;
      const std::optional<double> number = read_number<double>();
      if (!number || !(*number > 0) || !std::isfinite(*number)) return std::nullopt;
      weight = *number;
    }
    if (!text_.empty()) return std::nullopt;
    std::vector<GivenShape> shapes = shapes_of(ranges);
    for (GivenShape& shape : shapes)
      shape.weight = weight / static_cast<double>(shapes.size()), shape.is_weighted = is_weighted;
    return shapes;
  }

 private:
  bool skip(std::string_view expected) {
    if (!text_.starts_with(expected)) return false;
    text_.remove_prefix(expected.size());
    return true;
  }

  template <class Number>
  std::optional<Number> read_number() {
    Number number = 0;
    const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), number);
    if (error != std::errc()) return std::nullopt;
    text_.remove_prefix(static_cast<std::size_t>(end - text_.data()));
    return number;
  }

  std::optional<Range> read_range() {
    const std::optional<std::int64_t> first = read_number<std::int64_t>();
    if (!first || *first < 0) return std::nullopt;
    Range range{*first, *first, 1};
    if (!skip("..")) return range;
    const std::optional<std::int64_t> last = read_number<std::int64_t>();
    const std::optional<std::int64_t> step = skip("/") ? read_number<std::int64_t>() : std::optional<std::int64_t>(1);
    if (!last || !step || *step < 1 || *last < *first) return std::nullopt;
    range.step = *step;
    range.last = *last - (*last - *first) % *step;
    return range;
  }

  // The geometric mean of the ends: times grow with sizes at least as fast as these.
  static std::int64_t middle(const Range& range) {
    const double mean =
        std::sqrt(static_cast<double>(std::max<std::int64_t>(range.first, 1)) * static_cast<double>(range.last));
    const double steps = std::round((mean - static_cast<double>(range.first)) / static_cast<double>(range.step));
    const std::int64_t most = (range.last - range.first) / range.step;
    return range.first + std::clamp(static_cast<std::int64_t>(steps), std::int64_t{0}, most) * range.step;
  }

  // Ranges grow together.
  static std::vector<GivenShape> shapes_of(const std::vector<Range>& ranges) {
    std::vector<GivenShape> shapes(3);
    for (const Range& range : ranges) {
      shapes[0].sizes.push_back(range.first);
      shapes[1].sizes.push_back(middle(range));
      shapes[2].sizes.push_back(range.last);
    }
    const bool is_range = shapes[0].sizes != shapes[2].sizes;
    shapes.resize(is_range ? 3 : 1);
    return shapes;
  }

  std::string_view text_;
};

const Value& input_called(const Graph& graph, const std::string& name) {
  std::string names;
  for (const ValueId id : graph.inputs()) {
    if (graph.value(id).name == name) return graph.value(id);
    names += (names.empty() ? "" : ", ") + graph.value(id).name;
  }
  throw Error(ErrorCode::kBadInput, "the model has no input \"" + name + "\"", "--shape", "it has " + names);
}

// Notes what one input's sizes say.
void add_sizes(const Value& input, const Sizes& sizes, NamedSizes& result) {
  const Indices& shape = input.type.shape;
  const auto contradiction = [&] {
    return Error(ErrorCode::kBadInput, "the sizes given with --shape contradict the model's " + to_string(input.type),
                 "input \"" + input.name + "\"");
  };
  if (shape.size() != sizes.size()) throw contradiction();
  for (std::size_t a = 0; a < sizes.size(); ++a) {
    const Atom* symbol = shape[a].as_atom();
    if (symbol && symbol->kind == Atom::Kind::kSymbol) {
      if (result.emplace(symbol->name, sizes[a]).first->second != sizes[a]) throw contradiction();
    } else if (shape[a].constant() && *shape[a].constant() != sizes[a]) {
      throw contradiction();
    }
  }
}

// The weight of each set of sizes. One input gives them; others must not contradict it.
std::vector<double> weights_of(const GivenShapes& shapes) {
  const std::string* longest = nullptr;
  std::vector<double> weights{1};
  for (const auto& [name, sets] : shapes) {
    if (sets.size() == 1) continue;
    if (longest != nullptr && sets.size() != weights.size())
      throw Error(ErrorCode::kUsage, "--shape gives input \"" + *longest + "\" " + std::to_string(weights.size()) +
                                         " sets of sizes, and input \"" + name + "\" " + std::to_string(sets.size()));
    weights.resize(sets.size());
    longest = &name;
  }
  for (std::size_t k = 0; k < weights.size(); ++k) {
    const GivenShape* given = nullptr;
    for (const auto& [name, sets] : shapes) {
      if (sets.size() != weights.size()) continue;
      const GivenShape& shape = sets[k];
      if (given != nullptr && given->is_weighted && shape.is_weighted && given->weight != shape.weight)
        throw Error(ErrorCode::kUsage, "--shape gives input \"" + name + "\" other weights than another input");
      if (given == nullptr || shape.is_weighted) given = &shape;
    }
    weights[k] = given != nullptr ? given->weight : 1;
  }
  return weights;
}

void add_set(std::vector<WeightedSizes>& sets, WeightedSizes set) {
  const auto same = std::find_if(sets.begin(), sets.end(), [&](const WeightedSizes& s) { return s.sizes == set.sizes; });
  if (same == sets.end())
    sets.push_back(std::move(set));
  else
    same->weight += set.weight;
}

}  // namespace

GivenShapes parse_shapes(const std::vector<std::string>& shapes) {
  GivenShapes result;
  for (const std::string& text : shapes) {
    const std::size_t equals = text.rfind('=');
    const auto wrong = [&] {
      return Error(ErrorCode::kUsage, "--shape " + text + " is not understood", {},
                   "write it like --shape input=1x3x224x224, or several: input=1x3x224x224*3,1x3x640x640 or input=1x8..512");
    };
    if (equals == std::string::npos || equals == 0) throw wrong();
    std::vector<GivenShape> all;
    for (std::string_view rest = std::string_view(text).substr(equals + 1);;) {
      const std::size_t comma = rest.find(',');
      const auto one = ShapeReader(rest.substr(0, comma)).read();
      if (!one || (one->front().sizes.empty() && !(all.empty() && comma == std::string_view::npos))) throw wrong();
      all.insert(all.end(), one->begin(), one->end());
      if (comma == std::string_view::npos) break;
      rest.remove_prefix(comma + 1);
    }
    if (!result.emplace(text.substr(0, equals), std::move(all)).second)
      throw Error(ErrorCode::kUsage, "--shape gives input \"" + text.substr(0, equals) + "\" twice");
  }
  return result;
}

std::vector<WeightedSizes> given_sizes(const Graph& graph, const GivenShapes& shapes) {
  const std::vector<double> weights = weights_of(shapes);
  std::vector<WeightedSizes> result;
  for (std::size_t k = 0; k < weights.size(); ++k) {
    WeightedSizes set{{}, weights[k]};
    for (const auto& [name, sets] : shapes)
      add_sizes(input_called(graph, name), sets[sets.size() == 1 ? 0 : k].sizes, set.sizes);
    add_set(result, std::move(set));
  }
  return result;
}

std::vector<WeightedSizes> symbol_sizes(const Graph& graph, const GivenShapes& shapes) {
  std::vector<WeightedSizes> result;
  for (const WeightedSizes& given : given_sizes(graph, shapes))
    add_set(result, {fitting_sizes(graph, given.sizes).front(), given.weight});
  return result;
}

NamedSizes one_set_of_sizes(const Graph& graph, const GivenShapes& shapes) {
  const std::vector<WeightedSizes> sets = symbol_sizes(graph, shapes);
  if (sets.size() > 1)
    throw Error(ErrorCode::kUsage, "--shape gives " + std::to_string(sets.size()) + " sets of sizes, where one is wanted");
  return sets.front().sizes;
}

}  // namespace rewright::api
