#include "tests/parallel/communicator_suite.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace longwave {
namespace {

// Elements in the memory of the communicator under test.
template <class T>
class Buffer {
 public:
  Buffer(const CommunicatorUnderTest& under_test, const std::vector<T>& values) : under_test_(under_test), count_(values.size()) {
    data_ = under_test.allocate(std::max<std::size_t>(count_, 1) * sizeof(T));
    under_test.upload(data_, values.data(), count_ * sizeof(T));
  }
  ~Buffer() { under_test_.release(data_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  T* data() { return static_cast<T*>(data_); }
  std::vector<T> values() const {
    std::vector<T> host(count_);
    under_test_.download(host.data(), data_, count_ * sizeof(T));
    return host;
  }

 private:
  const CommunicatorUnderTest& under_test_;
  std::size_t count_;
  void* data_;
};

// Numbers whose sum depends on the order of additions; the same wherever they are asked for.
float noise(int rank, std::int64_t index) {
  const auto word = static_cast<std::uint64_t>(rank * 1000003 + index) * 0x9e3779b97f4a7c15ull;
  const auto exponent = static_cast<int>((word >> 20) % 24) - 12;
  return std::ldexp(static_cast<float>(static_cast<std::int32_t>(word >> 32)), exponent - 31);
}

std::vector<float> noise_of(int rank, std::int64_t count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) values[static_cast<std::size_t>(i)] = noise(rank, i);
  return values;
}

std::vector<float> sum_in_rank_order(int size, std::int64_t count) {
  std::vector<float> sum = noise_of(0, count);
  for (int rank = 1; rank < size; ++rank) {
    const std::vector<float> other = noise_of(rank, count);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += other[i];
  }
  return sum;
}

template <class T>
void expect_same_bits(const std::vector<T>& actual, const std::vector<T>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    ASSERT_EQ(std::memcmp(&actual[i], &expected[i], sizeof(T)), 0) << "element " << i;
  }
}

// Sizes around everything that is cut: nothing, one element, fewer than ranks, one stage and two, several messages.
const std::int64_t sizes[] = {0, 1, 3, 999, 1000, 1001, 4097, 25013};

TEST_P(CommunicatorSuite, AllReduceAddsInRankOrderOnEveryRank) {
  auto world = GetParam().make_world();
  for (std::int64_t count : sizes) {
    SCOPED_TRACE(count);
    Buffer<float> data(GetParam(), noise_of(world->rank(), count));
    world->all_reduce(data.data(), count, Element::f32, Reduction::sum);
    expect_same_bits(data.values(), sum_in_rank_order(world->size(), count));
  }
}

TEST_P(CommunicatorSuite, ReduceScatterGivesTheBitsOfAllReduce) {
  auto world = GetParam().make_world();
  for (std::int64_t count : sizes) {
    SCOPED_TRACE(count);
    Buffer<float> from(GetParam(), noise_of(world->rank(), count * world->size()));
    Buffer<float> to(GetParam(), std::vector<float>(static_cast<std::size_t>(count)));
    world->reduce_scatter(from.data(), to.data(), count, Element::f32, Reduction::sum);
    const std::vector<float> sum = sum_in_rank_order(world->size(), count * world->size());
    const auto begin = sum.begin() + count * world->rank();
    expect_same_bits(to.values(), std::vector<float>(begin, begin + count));
    expect_same_bits(from.values(), noise_of(world->rank(), count * world->size()));
  }
}

TEST_P(CommunicatorSuite, ReduceScatterAndAllGatherWorkInPlace) {
  auto world = GetParam().make_world();
  const std::int64_t count = 3001;
  Buffer<float> data(GetParam(), noise_of(world->rank(), count * world->size()));
  float* own = data.data() + count * world->rank();
  world->reduce_scatter(data.data(), own, count, Element::f32, Reduction::sum);
  world->all_gather(own, data.data(), count, Element::f32);
  expect_same_bits(data.values(), sum_in_rank_order(world->size(), count * world->size()));
}

TEST_P(CommunicatorSuite, AllGatherKeepsRankOrder) {
  auto world = GetParam().make_world();
  for (std::int64_t count : sizes) {
    SCOPED_TRACE(count);
    Buffer<float> from(GetParam(), noise_of(world->rank(), count));
    Buffer<float> to(GetParam(), std::vector<float>(static_cast<std::size_t>(count * world->size())));
    world->all_gather(from.data(), to.data(), count, Element::f32);
    std::vector<float> expected;
    for (int rank = 0; rank < world->size(); ++rank) {
      const std::vector<float> part = noise_of(rank, count);
      expected.insert(expected.end(), part.begin(), part.end());
    }
    expect_same_bits(to.values(), expected);
  }
}

TEST_P(CommunicatorSuite, Bf16IsSummedInFp32AndRoundedOnce) {
  auto world = GetParam().make_world();
  for (std::int64_t count : {5, 9001}) {
    SCOPED_TRACE(count);
    // 256 + 0.75 + 0.75 ...: in bf16 every partial sum would fall back to 256.
    const float own = world->rank() == 0 ? 256.0f : 0.75f;
    Buffer<bf16> data(GetParam(), std::vector<bf16>(static_cast<std::size_t>(count), bf16(own)));
    world->all_reduce(data.data(), count, Element::bf16, Reduction::sum);
    const bf16 expected(256.0f + 0.75f * static_cast<float>(world->size() - 1));
    expect_same_bits(data.values(), std::vector<bf16>(static_cast<std::size_t>(count), expected));
  }
}

template <class T>
void check_integers(const CommunicatorUnderTest& under_test, T scale) {
  auto world = under_test.make_world();
  const std::int64_t count = 2003;
  std::vector<T> own(static_cast<std::size_t>(count));
  const auto value = [scale](int rank, std::size_t i) { return scale * static_cast<T>((rank + 1) * 7 + static_cast<int>(i)); };
  for (std::size_t i = 0; i < own.size(); ++i) own[i] = value(world->rank(), i);
  Buffer<T> sum(under_test, own);
  Buffer<T> maximum(under_test, own);
  world->all_reduce(sum.data(), count, element_type<T>, Reduction::sum);
  world->all_reduce(maximum.data(), count, element_type<T>, Reduction::max);
  std::vector<T> expected_sum(own.size());
  std::vector<T> expected_maximum(own.size());
  for (std::size_t i = 0; i < own.size(); ++i) {
    for (int rank = 0; rank < world->size(); ++rank) {
      expected_maximum[i] = value(rank, i);
      expected_sum[i] += expected_maximum[i];
    }
  }
  EXPECT_EQ(sum.values(), expected_sum);
  EXPECT_EQ(maximum.values(), expected_maximum);
}

TEST_P(CommunicatorSuite, ReducesFp64AndIntegersPastThirtyTwoBits) {
  check_integers<double>(GetParam(), 1e20);
  check_integers<std::int32_t>(GetParam(), 1001);
  check_integers<std::int64_t>(GetParam(), std::int64_t{1} << 40);
}

TEST_P(CommunicatorSuite, MaximumTakesNegativesAndKeepsNaN) {
  auto world = GetParam().make_world();
  const float own = -10.0f - static_cast<float>(world->rank());
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Buffer<float> data(GetParam(), {own, world->rank() == world->size() - 1 ? nan : 5.0f, world->rank() == 0 ? nan : 5.0f});
  world->all_reduce(data.data(), 3, Element::f32, Reduction::max);
  EXPECT_EQ(data.values()[0], -10.0f);
  EXPECT_TRUE(std::isnan(data.values()[1]));
  EXPECT_TRUE(std::isnan(data.values()[2]));
}

TEST_P(CommunicatorSuite, BroadcastReachesEveryRankFromEveryRoot) {
  auto world = GetParam().make_world();
  for (int root = 0; root < world->size(); ++root) {
    Buffer<float> data(GetParam(), noise_of(world->rank(), 2501));
    world->broadcast(data.data(), 2501, Element::f32, root);
    expect_same_bits(data.values(), noise_of(root, 2501));
  }
}

TEST_P(CommunicatorSuite, MessagesOfATagArriveInOrder) {
  auto world = GetParam().make_world();
  const int next = (world->rank() + 1) % world->size();  // with one rank, itself
  const int previous = (world->rank() + world->size() - 1) % world->size();
  Buffer<float> first(GetParam(), noise_of(world->rank(), 2222));
  Buffer<float> second(GetParam(), noise_of(world->rank() + 100, 2222));
  Buffer<float> got_first(GetParam(), std::vector<float>(2222));
  Buffer<float> got_second(GetParam(), std::vector<float>(2222));
  Request received_first = world->start_recv(got_first.data(), 2222, Element::f32, previous, 3);
  Request received_second = world->start_recv(got_second.data(), 2222, Element::f32, previous, 3);
  Request sent_first = world->start_send(first.data(), 2222, Element::f32, next, 3);
  Request sent_second = world->start_send(second.data(), 2222, Element::f32, next, 3);
  received_second.wait();
  received_first.wait();
  sent_first.wait();
  sent_second.wait();
  expect_same_bits(got_first.values(), noise_of(previous, 2222));
  expect_same_bits(got_second.values(), noise_of(previous + 100, 2222));
}

TEST_P(CommunicatorSuite, RequestsMayBeWaitedForInADifferentOrderOnEachRank) {
  auto world = GetParam().make_world();
  constexpr int operations = 6;
  std::vector<std::unique_ptr<Buffer<float>>> data;
  std::vector<Request> requests;
  for (int i = 0; i < operations; ++i) {
    data.push_back(std::make_unique<Buffer<float>>(GetParam(), noise_of(world->rank(), 20000 + i)));
    requests.push_back(world->start_all_reduce(data.back()->data(), 20000 + i, Element::f32, Reduction::sum));
  }
  for (int i = 0; i < operations; ++i) {
    const int mine = world->rank() % 2 == 0 ? i : operations - 1 - i;
    requests[static_cast<std::size_t>(mine)].wait();
  }
  for (int i = 0; i < operations; ++i) {
    expect_same_bits(data[static_cast<std::size_t>(i)]->values(), sum_in_rank_order(world->size(), 20000 + i));
  }
}

TEST_P(CommunicatorSuite, OperationsOfTwoGroupsMayBeUnderWayAtOnce) {
  auto world = GetParam().make_world();
  auto other = world->split(0, world->rank());
  Buffer<float> a(GetParam(), noise_of(world->rank(), 15000));
  Buffer<float> b(GetParam(), noise_of(world->rank(), 16000));
  Request in_world = world->start_all_reduce(a.data(), 15000, Element::f32, Reduction::sum);
  Request in_other = other->start_all_reduce(b.data(), 16000, Element::f32, Reduction::sum);
  if (world->rank() % 2 == 0) {
    in_world.wait();
    in_other.wait();
  } else {
    in_other.wait();
    in_world.wait();
  }
  expect_same_bits(a.values(), sum_in_rank_order(world->size(), 15000));
  expect_same_bits(b.values(), sum_in_rank_order(world->size(), 16000));
}

TEST_P(CommunicatorSuite, SplitOrdersMembersByKey) {
  auto world = GetParam().make_world();
  auto reversed = world->split(0, world->size() - world->rank());
  EXPECT_EQ(reversed->size(), world->size());
  EXPECT_EQ(reversed->rank(), world->size() - 1 - world->rank());
  auto parity = world->split(world->rank() % 2, world->rank());
  EXPECT_EQ(parity->size(), (world->size() + 1 - world->rank() % 2) / 2);
  EXPECT_EQ(parity->rank(), world->rank() / 2);
}

TEST_P(CommunicatorSuite, CountsTheBytesItSends) {
  auto world = GetParam().make_world();
  const std::int64_t n = world->size();
  Buffer<float> data(GetParam(), std::vector<float>(static_cast<std::size_t>(12000 * n)));
  world->all_reduce(data.data(), 12000 * n, Element::f32, Reduction::sum);
  EXPECT_EQ(world->traffic(TrafficKind::all_reduce).bytes, 2 * (n - 1) * 12000 * 4);
  world->reduce_scatter(data.data(), data.data() + 12000 * world->rank(), 12000, Element::f32, Reduction::sum);
  EXPECT_EQ(world->traffic(TrafficKind::reduce_scatter).bytes, (n - 1) * 12000 * 4);
  world->all_gather(data.data() + 12000 * world->rank(), data.data(), 12000, Element::f32);
  EXPECT_EQ(world->traffic(TrafficKind::all_gather).bytes, (n - 1) * 12000 * 4);
  EXPECT_EQ(world->traffic(TrafficKind::all_gather).operations, 1);
  world->reset_traffic();
  EXPECT_EQ(world->traffic(TrafficKind::all_gather).bytes, 0);
}

}  // namespace
}  // namespace longwave
