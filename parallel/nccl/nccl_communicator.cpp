#include "parallel/nccl/nccl_communicator.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "core/backend/cuda/check.h"
#include "core/base/error.h"
#include "parallel/nccl/nccl_check.h"
#include "parallel/nccl/reduce_parts.h"

namespace longwave {

void check_nccl(ncclResult_t result, const char* call, const char* file, int line) {
  if (result == ncclSuccess) return;
  const bool ours = result == ncclInvalidArgument || result == ncclInvalidUsage;
  throw Error(ours ? ExitCode::bug : ExitCode::lost, fmt::format("{}: {} ({}:{})", call, ncclGetErrorString(result), file, line));
}

// Finished when its event on the communicator's stream has been reached.
class NcclOperation final : public PendingOperation {
 public:
  explicit NcclOperation(NcclCommunicator& communicator) : communicator_(communicator) {}

  bool test() override {
    communicator_.send_messages();
    communicator_.throw_if_lost();
    if (communicator_.captured()) return false;  // nothing runs
    const cudaError_t result = cudaEventQuery(done_.get());
    if (result == cudaErrorNotReady) return false;
    check_cuda(result, "cudaEventQuery", __FILE__, __LINE__);
    wait();
    return true;
  }
  void wait() override {
    communicator_.send_messages();
    communicator_.throw_if_lost();
    LONGWAVE_CUDA(cudaStreamWaitEvent, communicator_.compute_, done_.get(), 0);
  }
  void release() noexcept override { held_ = false; }

  bool held() const { return held_; }
  void hold() { held_ = true; }
  void record() { LONGWAVE_CUDA(cudaEventRecord, done_.get(), communicator_.stream_.get()); }

 private:
  NcclCommunicator& communicator_;
  CudaEvent done_;
  bool held_ = false;
};

std::unique_ptr<NcclCommunicator> NcclCommunicator::create(Communicator& host, cudaStream_t compute, const NcclLimits& limits,
                                                           std::function<void()> forget_record) {
  std::unique_ptr<NcclCommunicator> made(
      new NcclCommunicator(host, nullptr, compute, limits, std::move(forget_record), std::make_shared<Groups>()));
  made->connect();
  return made;
}

NcclCommunicator::NcclCommunicator(Communicator& host, std::unique_ptr<Communicator> own_host, cudaStream_t compute,
                                   const NcclLimits& limits, std::function<void()> forget_record, std::shared_ptr<Groups> groups)
    : Communicator(host.rank(), host.size()), own_host_(std::move(own_host)), host_(host), compute_(compute), limits_(limits),
      forget_record_(std::move(forget_record)), groups_(std::move(groups)) {
  groups_->push_back(this);
}

NcclCommunicator::~NcclCommunicator() {
  std::erase(*groups_, this);
  if (comm_ == nullptr) return;
  cudaStreamSynchronize(stream_.get());
  abort();
}

void NcclCommunicator::connect() {
  if (size() == 1) return;
  ncclUniqueId id{};
  if (rank() == 0) LONGWAVE_NCCL(ncclGetUniqueId, &id);
  host_.broadcast(&id, sizeof id, Element::byte, 0);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  settle(ncclCommInitRankConfig(&comm_, size(), id, rank(), &config), "ncclCommInitRankConfig");
}

// A non-blocking communicator may say of any call that it is still at work.
void NcclCommunicator::settle(ncclResult_t result, const char* call) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::duration<double>(limits_.start_seconds);
  while (result == ncclInProgress) {
    LONGWAVE_NCCL(ncclCommGetAsyncError, comm_, &result);
    if (result != ncclInProgress) break;
    if (std::chrono::steady_clock::now() > limit) {
      abort();
      throw Error(ExitCode::lost, fmt::format("{}: not all {} ranks came within {:.0f} s (this is rank {} of the group); see the "
                                              "other ranks' logs, and NCCL_DEBUG=INFO", call, size(), limits_.start_seconds, rank()));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  check_nccl(result, call, __FILE__, __LINE__);
}

void NcclCommunicator::throw_if_lost() {
  if (comm_ == nullptr) return;
  ncclResult_t result = ncclSuccess;
  LONGWAVE_NCCL(ncclCommGetAsyncError, comm_, &result);
  if (result == ncclSuccess || result == ncclInProgress) return;
  abort();
  throw Error(ExitCode::lost, fmt::format("NCCL: {}; a rank or the network was lost", ncclGetErrorString(result)));
}

void NcclCommunicator::abort() {
  if (forget_record_) forget_record_();
  ncclCommAbort(std::exchange(comm_, nullptr));
}

bool NcclCommunicator::captured() const {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  LONGWAVE_CUDA(cudaStreamIsCapturing, compute_, &status);
  return status != cudaStreamCaptureStatusNone;
}

std::unique_ptr<Communicator> NcclCommunicator::split(int color, int key) {
  std::unique_ptr<Communicator> host = host_.split(color, key);
  Communicator& group = *host;
  std::unique_ptr<NcclCommunicator> made(
      new NcclCommunicator(group, std::move(host), compute_, limits_, forget_record_, groups_));
  made->connect();
  return made;
}

void NcclCommunicator::follow_compute() {
  LONGWAVE_CUDA(cudaEventRecord, submitted_.get(), compute_);
  LONGWAVE_CUDA(cudaStreamWaitEvent, stream_.get(), submitted_.get(), 0);
}

NcclOperation& NcclCommunicator::begin(TrafficKind kind) {
  LONGWAVE_CHECK(size() == 1 || comm_ != nullptr, "the communicator was aborted");
  if (kind != TrafficKind::point_to_point) {
    send_messages();
    follow_compute();
  }
  count_operation(kind);
  for (const auto& operation : operations_) {
    if (!operation->held()) {
      operation->hold();
      return *operation;
    }
  }
  operations_.push_back(std::make_unique<NcclOperation>(*this));
  operations_.back()->hold();
  return *operations_.back();
}

Request NcclCommunicator::finish(NcclOperation& operation) {
  operation.record();
  return Request(&operation);
}

void NcclCommunicator::copy_own(const void* from, void* to, std::int64_t bytes) {
  if (from == to || bytes == 0) return;
  LONGWAVE_CUDA(cudaMemcpyAsync, to, from, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToDevice, stream_.get());
}

template <class Begin>
void NcclCommunicator::reduce_own_part(const void* from, void* to, const Begin& begin, Element element, Reduction reduction) {
  LONGWAVE_CHECK(element != Element::byte, "bytes are not reduced");
  const auto width = static_cast<std::int64_t>(size_of(element));
  const std::int64_t own_begin = begin(rank());
  const auto* source = static_cast<const char*>(from);
  // Parts differ by one element at most; all ranks cut them into as many pieces.
  std::int64_t longest = 0;
  for (int other = 0; other < size(); ++other) longest = std::max(longest, begin(other + 1) - begin(other));
  const std::int64_t piece = std::max<std::int64_t>(1, limits_.piece_bytes / width);
  const std::int64_t stride = std::min(piece, longest);
  auto* const others = scratch_.get<char>(static_cast<std::size_t>((size() - 1) * stride * width));
  for (std::int64_t done = 0; done < longest; done += piece) {
    const auto length = [&](int part) { return std::clamp<std::int64_t>(begin(part + 1) - begin(part) - done, 0, piece); };
    LONGWAVE_NCCL(ncclGroupStart);
    for (int other = 0, slot = 0; other < size(); ++other) {
      if (other == rank()) continue;
      const char* part = source + (begin(other) + done) * width;
      char* const arriving = others + slot++ * stride * width;
      if (length(other) > 0) {
        LONGWAVE_NCCL(ncclSend, part, static_cast<std::size_t>(length(other) * width), ncclInt8, other, comm_, stream_.get());
      }
      if (length(rank()) > 0) {
        LONGWAVE_NCCL(ncclRecv, arriving, static_cast<std::size_t>(length(rank()) * width), ncclInt8, other, comm_, stream_.get());
      }
    }
    settle(ncclGroupEnd(), "ncclGroupEnd");
    if (length(rank()) > 0) {
      reduce_parts(stream_.get(), source + (own_begin + done) * width, others, stride, static_cast<char*>(to) + done * width,
                   length(rank()), rank(), size(), element, reduction);
    }
  }
}

Request NcclCommunicator::start_all_reduce(void* data, std::int64_t count, Element element, Reduction reduction) {
  NcclOperation& operation = begin(TrafficKind::all_reduce);
  if (size() > 1 && count > 0) {
    const auto width = static_cast<std::int64_t>(size_of(element));
    const auto part_begin = [&](int part) { return count / size() * part + std::min<std::int64_t>(part, count % size()); };
    const auto part_bytes = [&](int part) { return static_cast<std::size_t>((part_begin(part + 1) - part_begin(part)) * width); };
    auto* const bytes = static_cast<char*>(data);
    reduce_own_part(data, bytes + part_begin(rank()) * width, part_begin, element, reduction);
    LONGWAVE_NCCL(ncclGroupStart);
    for (int other = 0; other < size(); ++other) {
      if (other == rank()) continue;
      if (part_bytes(rank()) > 0) {
        LONGWAVE_NCCL(ncclSend, bytes + part_begin(rank()) * width, part_bytes(rank()), ncclInt8, other, comm_, stream_.get());
      }
      if (part_bytes(other) > 0) {
        LONGWAVE_NCCL(ncclRecv, bytes + part_begin(other) * width, part_bytes(other), ncclInt8, other, comm_, stream_.get());
      }
    }
    settle(ncclGroupEnd(), "ncclGroupEnd");
    const auto own = static_cast<std::int64_t>(part_bytes(rank()));
    count_bytes(TrafficKind::all_reduce, count * width - own + (size() - 1) * own);
  }
  return finish(operation);
}

Request NcclCommunicator::start_reduce_scatter(const void* from, void* to, std::int64_t count, Element element,
                                               Reduction reduction) {
  NcclOperation& operation = begin(TrafficKind::reduce_scatter);
  const auto bytes = count * static_cast<std::int64_t>(size_of(element));
  if (size() == 1) {
    copy_own(from, to, bytes);
  } else if (count > 0) {
    reduce_own_part(from, to, [&](int part) { return count * part; }, element, reduction);
    count_bytes(TrafficKind::reduce_scatter, (size() - 1) * bytes);
  }
  return finish(operation);
}

Request NcclCommunicator::start_all_gather(const void* from, void* to, std::int64_t count, Element element) {
  NcclOperation& operation = begin(TrafficKind::all_gather);
  const auto bytes = count * static_cast<std::int64_t>(size_of(element));
  if (size() == 1) {
    copy_own(from, to, bytes);
  } else if (count > 0) {
    settle(ncclAllGather(from, to, static_cast<std::size_t>(bytes), ncclInt8, comm_, stream_.get()), "ncclAllGather");
    count_bytes(TrafficKind::all_gather, (size() - 1) * bytes);
  }
  return finish(operation);
}

Request NcclCommunicator::start_broadcast(void* data, std::int64_t count, Element element, int root) {
  NcclOperation& operation = begin(TrafficKind::broadcast);
  const auto bytes = count * static_cast<std::int64_t>(size_of(element));
  if (size() > 1 && count > 0) {
    settle(ncclBroadcast(data, data, static_cast<std::size_t>(bytes), ncclInt8, root, comm_, stream_.get()), "ncclBroadcast");
    if (rank() == root) count_bytes(TrafficKind::broadcast, (size() - 1) * bytes);
  }
  return finish(operation);
}

Request NcclCommunicator::start_send(const void* data, std::int64_t count, Element element, int to, int) {
  NcclOperation& operation = begin(TrafficKind::point_to_point);
  const std::size_t bytes = static_cast<std::size_t>(count) * size_of(element);
  messages_.push_back({data, nullptr, bytes, to, &operation});
  if (to != rank()) count_bytes(TrafficKind::point_to_point, static_cast<std::int64_t>(bytes));
  return Request(&operation);
}

Request NcclCommunicator::start_recv(void* data, std::int64_t count, Element element, int from, int) {
  NcclOperation& operation = begin(TrafficKind::point_to_point);
  messages_.push_back({nullptr, data, static_cast<std::size_t>(count) * size_of(element), from, &operation});
  return Request(&operation);
}

void NcclCommunicator::send_messages() {
  if (messages_.empty()) return;
  follow_compute();
  if (size() == 1) {
    // To itself: the n-th send is the n-th receive.
    auto receive = messages_.begin();
    for (const Message& send : messages_) {
      if (send.from == nullptr) continue;
      receive = std::find_if(receive, messages_.end(), [](const Message& message) { return message.to != nullptr; });
      LONGWAVE_CHECK(receive != messages_.end() && receive->bytes == send.bytes, "a message to itself is not received");
      copy_own(send.from, receive->to, static_cast<std::int64_t>(send.bytes));
      ++receive;
    }
  } else {
    LONGWAVE_NCCL(ncclGroupStart);
    for (const Message& message : messages_) {
      if (message.from != nullptr) {
        LONGWAVE_NCCL(ncclSend, message.from, message.bytes, ncclInt8, message.peer, comm_, stream_.get());
      } else {
        LONGWAVE_NCCL(ncclRecv, message.to, message.bytes, ncclInt8, message.peer, comm_, stream_.get());
      }
    }
    settle(ncclGroupEnd(), "ncclGroupEnd");
  }
  for (const Message& message : messages_) message.operation->record();
  messages_.clear();
}

void NcclCommunicator::barrier() {
  send_messages();
  LONGWAVE_CUDA(cudaStreamSynchronize, compute_);
  LONGWAVE_CUDA(cudaStreamSynchronize, stream_.get());
  host_.barrier();
}

}  // namespace longwave
