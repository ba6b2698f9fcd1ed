// Clocks and bandwidth between the nodes.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <vector>

#include "core/base/error.h"
#include "jobs/preflight/node_report.h"

namespace longwave {
namespace {

constexpr double clock_limit = 1.0;  // seconds; the order of events in logs, and file times, are read by people
constexpr int clock_rounds = 8;
constexpr std::int64_t pair_bytes = 8 << 20;
constexpr std::int64_t reduce_floats = 4 << 20;

double wall_clock() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }
double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// The answer with the shortest way there and back tells most. The clock that is read is the one under test, so the way is
// measured by the steady one.
double offset_of(Communicator& leaders, int node) {
  double best_way = std::numeric_limits<double>::infinity(), offset = 0;
  for (int round = 0; round < clock_rounds; ++round) {
    const double start = seconds(), here = wall_clock();
    double there = 0;
    leaders.send(&here, 1, Element::f64, node);
    leaders.recv(&there, 1, Element::f64, node);
    const double way = seconds() - start;
    if (way >= best_way) continue;
    best_way = way;
    offset = there - (here + way / 2);
  }
  return offset;
}

void answer(Communicator& leaders) {
  for (int round = 0; round < clock_rounds; ++round) {
    double other = 0;
    leaders.recv(&other, 1, Element::f64, 0);
    const double here = wall_clock();
    leaders.send(&here, 1, Element::f64, 0);
  }
}

// Every pair once, in rounds where each node has at most one partner: the circle method.
int partner_in_round(int node, int round, int places) {
  const int last = places - 1;
  if (node == last) return round;
  if (node == round) return last;
  return (2 * round - node + 2 * last) % last;
}

double exchange(Communicator& leaders, int partner, std::vector<char>& out, std::vector<char>& in) {
  const double start = seconds();
  Request receive = leaders.start_recv(in.data(), pair_bytes, Element::byte, partner, 0);
  Request send = leaders.start_send(out.data(), pair_bytes, Element::byte, partner, 0);
  send.wait();
  receive.wait();
  return 2.0 * static_cast<double>(pair_bytes) / (seconds() - start);
}

}  // namespace

void compare_clocks(Communicator& leaders, NodeReport& report) {
  std::vector<double> offsets(static_cast<std::size_t>(leaders.size()), 0.0);
  if (leaders.rank() == 0) {
    for (int node = 1; node < leaders.size(); ++node) offsets[static_cast<std::size_t>(node)] = offset_of(leaders, node);
  } else {
    answer(leaders);
  }
  leaders.broadcast(offsets.data(), leaders.size(), Element::f64, 0);
  // From the middle of all clocks, as it may be rank 0's that is wrong.
  std::vector<double> sorted = offsets;
  std::sort(sorted.begin(), sorted.end());
  const double middle = sorted[(sorted.size() - 1) / 2];
  report.clock_seconds = offsets[static_cast<std::size_t>(leaders.rank())] - middle;
  if (std::abs(report.clock_seconds) > clock_limit) {
    report.problems.push_back(fmt::format("clock is {:.1f} s {} that of the others", std::abs(report.clock_seconds),
                                          report.clock_seconds > 0 ? "ahead of" : "behind"));
  }
}

void measure_pairs(Communicator& leaders, NodeReport& report) {
  const int places = leaders.size() + leaders.size() % 2;
  std::vector<char> out(pair_bytes, 'x'), in(pair_bytes);
  report.slowest_pair = std::numeric_limits<double>::infinity();
  for (int round = 0; round + 1 < places; ++round) {
    const int partner = partner_in_round(leaders.rank(), round, places);
    if (partner < leaders.size()) {
      exchange(leaders, partner, out, in);  // connects
      if (const double rate = exchange(leaders, partner, out, in); rate < report.slowest_pair) {
        report.slowest_pair = rate;
        report.slowest_partner = partner;
      }
    }
    leaders.barrier();
  }
  if (report.slowest_partner < 0) report.slowest_pair = 0;
}

double all_reduce_bandwidth(int ranks, std::int64_t floats, double elapsed_seconds) {
  return 2.0 * (ranks - 1) / ranks * static_cast<double>(floats) * sizeof(float) / elapsed_seconds;
}

double measure_all_reduce(Communicator& all) {
  if (all.size() == 1) return 0;
  std::vector<float> values(reduce_floats, 1.0f);
  all.all_reduce(values.data(), reduce_floats, Element::f32, Reduction::sum);
  all.barrier();
  const double start = seconds();
  all.all_reduce(values.data(), reduce_floats, Element::f32, Reduction::sum);
  return all_reduce_bandwidth(all.size(), reduce_floats, all_reduce_value(all, seconds() - start, Reduction::max));
}

}  // namespace longwave
