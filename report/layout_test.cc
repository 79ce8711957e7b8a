#include "report/layout.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <random>

namespace rewright::report {

TEST_CASE("boxes stand apart, below what points at them, and arrows end at their boxes") {
  std::mt19937_64 random(1);
  for (int round = 0; round < 20; ++round) {
    std::vector<Box> boxes;
    std::vector<Arrow> arrows;
    const std::size_t count = 1 + random() % 25;
    for (std::size_t i = 0; i < count; ++i) {
      boxes.push_back({40 + static_cast<double>(random() % 80), 24});
      for (std::size_t from = 0; from < i; ++from)
        if (random() % 6 == 0) arrows.push_back({from, i});
    }
    const Layout layout = layered_layout(boxes, arrows);
    REQUIRE(layout.boxes.size() == boxes.size());
    REQUIRE(layout.arrows.size() == arrows.size());
    for (std::size_t i = 0; i < count; ++i) {
      const auto [x, y] = layout.boxes[i];
      CHECK((x - boxes[i].width / 2 >= -1 && x + boxes[i].width / 2 <= layout.width + 1));
      CHECK((y - boxes[i].height / 2 >= -1 && y + boxes[i].height / 2 <= layout.height + 1));
      for (std::size_t k = 0; k < i; ++k)
        CHECK((std::abs(x - layout.boxes[k].x) >= (boxes[i].width + boxes[k].width) / 2 - 1 ||
               std::abs(y - layout.boxes[k].y) >= (boxes[i].height + boxes[k].height) / 2 - 1));
    }
    for (std::size_t a = 0; a < arrows.size(); ++a) {
      CHECK(layout.boxes[arrows[a].from].y < layout.boxes[arrows[a].to].y);
      const std::vector<Point>& points = layout.arrows[a];
      REQUIRE(points.size() % 3 == 1);
      CHECK(std::abs(points.front().y - layout.boxes[arrows[a].from].y) <= 13);
      CHECK(std::abs(points.back().y - layout.boxes[arrows[a].to].y) <= 13);
    }
  }
}

TEST_CASE("first and last rows") {
  const std::vector<Box> boxes{{60, 24}, {8, 8, Box::Row::kFirst}, {60, 24}, {8, 8, Box::Row::kLast}, {8, 8, Box::Row::kFirst}};
  const std::vector<Arrow> arrows{{0, 2}, {1, 2}, {0, 3}, {4, 3}};
  const Layout layout = layered_layout(boxes, arrows);
  CHECK(layout.boxes[1].y == Approx(layout.boxes[4].y));
  CHECK(layout.boxes[1].y < layout.boxes[0].y);
  CHECK(layout.boxes[3].y > layout.boxes[2].y);
}

TEST_CASE("no boxes at all") { CHECK(layered_layout({}, {}).boxes.empty()); }

}  // namespace rewright::report
