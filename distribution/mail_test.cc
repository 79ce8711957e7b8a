#include "distribution/mail.h"

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <numeric>
#include <random>
#include <string>
#include <thread>

#include "distribution/survivors.h"
#include "distribution/testing.h"

namespace rewright::distribution {
namespace {

using testing::run_with_mail;

// Checks of Catch are for one thread.
void expect(bool holds, int line = __builtin_LINE()) {
  if (!holds) throw Error(ErrorCode::kBadInput, "does not hold", "line " + std::to_string(line));
}

std::span<const std::byte> bytes_of(const std::vector<float>& values) { return std::as_bytes(std::span(values)); }

TEST_CASE("letters of any length arrive whole and in order, from whoever sends") {
  run_with_mail(4, [](Mail mail) {
    const auto here = static_cast<std::int64_t>(mail.rank());
    std::vector<float> values(300000);
    std::iota(values.begin(), values.end(), static_cast<float>(here));
    for (std::size_t to = 0; to < 4; ++to)
      for (const std::size_t count : {std::size_t{0}, std::size_t{1}, values.size()})
        mail.send(to, 7, {here, static_cast<std::int64_t>(count)}, bytes_of(values).first(count * sizeof(float)));
    std::vector<std::vector<std::size_t>> lengths(4);
    for (int n = 0; n < 12;) {
      const std::optional<Letter> letter = mail.receive(-1);
      expect(letter.has_value());
      if (letter->kind == Mail::kLost) continue;  // who has read all ends
      ++n;
      expect(letter->kind == 7);
      expect(letter->numbers ==
             std::vector{static_cast<std::int64_t>(letter->from), static_cast<std::int64_t>(letter->floats().size())});
      lengths[letter->from].push_back(letter->floats().size());
      bool same = true;
      for (std::size_t k = 0; k < letter->floats().size(); ++k)
        same = same && letter->floats()[k] == static_cast<float>(letter->from + k);
      expect(same);
    }
    for (const auto& of : lengths) expect(of == std::vector<std::size_t>{0, 1, 300000});
  });
}

TEST_CASE("the end of a process is its last letter, and does not stop the others") {
  run_with_mail(3, [](Mail mail) {
    if (mail.rank() == 1) {
      mail.send(0, 1, {5});
      return;
    }
    const std::size_t other = 2 - mail.rank();
    mail.send(other, 1, {7});
    std::vector<std::int64_t> from_first, from_other;
    bool lost = false;
    const auto take = [&] {
      const std::optional<Letter> letter = mail.receive(-1);
      expect(letter.has_value());
      expect((letter->kind == Mail::kLost) == letter->numbers.empty());
      lost = lost || letter->kind == Mail::kLost;
      for (const std::int64_t number : letter->numbers) (letter->from == 1 ? from_first : from_other).push_back(number);
    };
    while (!lost || from_other.empty()) take();
    expect(mail.rank() != 0 || from_first == std::vector<std::int64_t>{5});
    expect(mail.is_lost(1));
    mail.send(1, 1, {6});
    mail.send(other, 1, {8});  // so that neither closes its mail before the other has read it
    while (from_other.size() < 2) take();
    expect(from_other == std::vector<std::int64_t>{7, 8});
  });
}

// Processes that add up numbers step by step, each of which ends at a step of its own.
TEST_CASE("those that are left agree on their group, whenever others end") {
  for (const unsigned seed : {1u, 2u, 3u, 4u, 5u}) {
    std::mt19937 random(seed);
    std::vector<int> ends_at(5);
    for (int& end : ends_at) end = static_cast<int>(random() % 40);
    ends_at[random() % 5] = 60;
    std::atomic<int> at_end = 0;
    run_with_mail(5, [&](Mail mail) {
      const std::size_t here = mail.rank();
      Survivors group(std::move(mail));
      expect(group.rank() == here);
      int step = 0;
      while (step < 60) {
        if (step >= ends_at[here]) return;
        try {
          std::vector<double> value{static_cast<double>(step), 1.0};
          group.sum(std::span(value));
          expect(value[1] == static_cast<double>(group.size()));
          expect(value[0] == static_cast<double>(group.size()) * step);
          ++step;
        } catch (const ProcessLost&) {
          const std::vector<std::int64_t> steps = group.regroup(step);
          expect(steps.size() == group.size());
          expect(group.members()[group.rank()] == here);
          expect(steps[group.rank()] == step);
          const auto [least, most] = std::ranges::minmax(steps);
          expect(most - least <= 1);
          step = static_cast<int>(most);
        }
      }
      ++at_end;
      expect(group.size() == 1);
    });
    CHECK(at_end == 1);
  }
}

TEST_CASE("the processes that mpirun started can write to each other", "[distribution]") {
  Communicator& processes = testing::started_processes();
  if (processes.size() == 1) return;
  Mail mail = introduce(processes);
  REQUIRE(mail.size() == processes.size());
  REQUIRE(mail.rank() == processes.rank());
  Survivors group(std::move(mail));
  std::vector<double> value{1.0 + static_cast<double>(group.rank())};
  group.sum(std::span(value));
  CHECK(value[0] == static_cast<double>(group.size() * (group.size() + 1)) / 2);
  group.part();  // otherwise the first one to end is lost to those that are still adding up
}

}  // namespace
}  // namespace rewright::distribution
