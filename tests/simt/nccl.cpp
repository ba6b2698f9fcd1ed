// Each call becomes messages of a header and the data between the ranks that take part, over an MPI communicator of its own.
// A step of a queue posts what it has to send and is done when all it expects has come; nothing blocks, so streams that ranks
// run in different orders cannot stop each other.
#include <mpi.h>
#include <nccl.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "tests/simt/access.h"
#include "tests/simt/queue.h"

struct SimtNccl {
  int rank = 0, size = 1;
  MPI_Comm comm = MPI_COMM_NULL;
  ncclResult_t state = ncclInProgress;

  // Until the members know each other: rank 0 collects their numbers in the world, then tells them all.
  int root = 0, tag = 0;
  std::vector<int> members;          // rank, world rank
  std::vector<MPI_Request> requests;
  bool announced = false;
};

namespace longwave::simt {
namespace {

enum class Call : int { all_gather, broadcast, message };

struct Header {
  Call call;
  int root;  // of a broadcast
  std::size_t bytes;

  bool operator==(const Header&) const = default;
};

struct Operation {
  Call call;
  const void* from;
  void* to;
  std::size_t bytes;
  int peer;  // the root of a broadcast; of a message the sender or receiver
  bool sends;
  SimtNccl* comm;
  cudaStream_t stream;

  std::size_t results() const { return call == Call::all_gather ? bytes * static_cast<std::size_t>(comm->size) : bytes; }
};

struct Identity {
  int root, tag;
};

constexpr int message_tag = 7;
constexpr int first_identity_tag = 20000;

int polls_until_lost = 0;  // 0: never
int group_depth = 0;
std::vector<Operation> group;

// Messages that MPI may still be reading.
struct Sent {
  std::vector<char> bytes;
  MPI_Request request;
};
std::list<Sent> sent;

void reap_sent() {
  for (auto message = sent.begin(); message != sent.end();) {
    int done = 0;
    MPI_Test(&message->request, &done, MPI_STATUS_IGNORE);
    message = done != 0 ? sent.erase(message) : std::next(message);
  }
}

std::string describe(const Header& header) {
  const std::string bytes = std::to_string(header.bytes) + " bytes";
  switch (header.call) {
    case Call::all_gather: return "all_gather of " + bytes;
    case Call::broadcast: return "broadcast of " + bytes + " from rank " + std::to_string(header.root);
    case Call::message: return "message of " + bytes;
  }
  return "?";
}

// A message that has to come before the step is done.
struct Expected {
  SimtNccl* comm;
  int from;
  Header header;
  void* to;  // null: only the header matters
};

void post(SimtNccl& comm, int to, const Header& header, const void* data) {
  sent.emplace_back();
  Sent& message = sent.back();
  message.bytes.resize(sizeof header + (data == nullptr ? 0 : header.bytes));
  std::memcpy(message.bytes.data(), &header, sizeof header);
  if (data != nullptr && header.bytes > 0) std::memcpy(message.bytes.data() + sizeof header, data, header.bytes);
  MPI_Isend(message.bytes.data(), static_cast<int>(message.bytes.size()), MPI_BYTE, to, message_tag, comm.comm, &message.request);
}

class Step {
 public:
  explicit Step(std::vector<Operation> operations) : operations_(std::move(operations)) {}

  bool run() {
    if (!posted_) {
      for (const Operation& operation : operations_) start(operation);
      posted_ = true;
    }
    reap_sent();
    // The oldest expected message of each pair of ranks is the next to come.
    for (auto expected = expected_.begin(); expected != expected_.end();) {
      const bool oldest = std::none_of(expected_.begin(), expected, [&](const Expected& other) {
        return other.comm == expected->comm && other.from == expected->from;
      });
      expected = oldest && receive(*expected) ? expected_.erase(expected) : std::next(expected);
    }
    return expected_.empty();
  }

 private:
  void start(const Operation& operation) {
    SimtNccl& comm = *operation.comm;
    if (operation.bytes > 0 && ((operation.from != nullptr && !still_allocated(operation.from, operation.bytes)) ||
                                (operation.to != nullptr && !still_allocated(operation.to, operation.results())))) {
      return;
    }
    if (operation.call == Call::message) {
      const Header header = {Call::message, 0, operation.bytes};
      if (operation.sends) {
        open_device();
        post(comm, operation.peer, header, operation.from);
      } else {
        expected_.push_back({&comm, operation.peer, header, operation.to});
      }
      return;
    }
    const bool gathers = operation.call == Call::all_gather;
    open_device();
    const Header header = {operation.call, gathers ? 0 : operation.peer, operation.bytes};
    char* const own = static_cast<char*>(operation.to) + (gathers ? static_cast<std::size_t>(comm.rank) * operation.bytes : 0);
    if ((gathers || operation.peer == comm.rank) && own != operation.from) std::memmove(own, operation.from, operation.bytes);
    for (int other = 0; other < comm.size; ++other) {
      if (other == comm.rank) continue;
      post(comm, other, header, gathers || operation.peer == comm.rank ? operation.from : nullptr);
      void* to = nullptr;
      if (gathers) to = static_cast<char*>(operation.to) + static_cast<std::size_t>(other) * operation.bytes;
      if (!gathers && operation.peer == other) to = operation.to;
      expected_.push_back({&comm, other, header, to});
    }
  }

  static bool receive(const Expected& expected) {
    int here = 0;
    MPI_Message handle;
    MPI_Status status;
    MPI_Improbe(expected.from, message_tag, expected.comm->comm, &here, &handle, &status);
    if (here == 0) return false;
    int bytes = 0;
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    std::vector<char> message(static_cast<std::size_t>(bytes));
    MPI_Mrecv(message.data(), bytes, MPI_BYTE, &handle, MPI_STATUS_IGNORE);
    Header header;
    std::memcpy(&header, message.data(), sizeof header);
    if (header != expected.header) {
      std::fprintf(stderr, "simt: nccl: rank %d is in a %s, rank %d in a %s\n", expected.comm->rank,
                   describe(expected.header).c_str(), expected.from, describe(header).c_str());
      expected.comm->state = ncclInvalidUsage;
      set_failed(cudaErrorLaunchFailure);
      return true;
    }
    if (expected.to != nullptr && header.bytes > 0) {
      open_device();
      std::memcpy(expected.to, message.data() + sizeof header, header.bytes);
    }
    return true;
  }

  std::vector<Operation> operations_;
  std::list<Expected> expected_;
  bool posted_ = false;
};

void enqueue_group() {
  while (!group.empty()) {
    const cudaStream_t stream = group.front().stream;
    std::vector<Operation> together;
    std::erase_if(group, [&](const Operation& operation) {
      if (operation.stream == stream) together.push_back(operation);
      return operation.stream == stream;
    });
    const void* const comm = together.front().comm;
    enqueue_step(stream, [step = Step(std::move(together))]() mutable { return step.run(); }, comm);
  }
}

ncclResult_t call(const Operation& operation) {
  const SimtNccl& comm = *operation.comm;
  if (comm.state != ncclSuccess) return comm.state;
  if (operation.peer < 0 || operation.peer >= comm.size) return ncclInvalidArgument;
  const bool good = (operation.from == nullptr || inside_allocation(operation.from, operation.bytes)) &&
                    (operation.to == nullptr || inside_allocation(operation.to, operation.results()));
  if (operation.bytes > 0 && !good) return ncclInvalidArgument;
  group.push_back(operation);
  if (group_depth == 0) enqueue_group();
  return ncclSuccess;
}

// One more look at whether the members have found each other.
void progress_initialisation(SimtNccl& comm) {
  const auto count = static_cast<std::size_t>(comm.size);
  if (comm.requests.empty()) {
    comm.members.assign(2 * count, 0);
    int world_rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    if (comm.rank == 0) {
      comm.members[1] = world_rank;
      for (std::size_t i = 1; i < count; ++i) {
        MPI_Irecv(&comm.members[2 * i], 2, MPI_INT, MPI_ANY_SOURCE, comm.tag, MPI_COMM_WORLD, &comm.requests.emplace_back());
      }
    } else {
      const int own[2] = {comm.rank, world_rank};
      MPI_Send(own, 2, MPI_INT, comm.root, comm.tag, MPI_COMM_WORLD);  // small: buffered
      MPI_Irecv(comm.members.data(), static_cast<int>(2 * count), MPI_INT, comm.root, comm.tag + 1, MPI_COMM_WORLD,
                &comm.requests.emplace_back());
    }
  }
  int done = 0;
  MPI_Testall(static_cast<int>(comm.requests.size()), comm.requests.data(), &done, MPI_STATUSES_IGNORE);
  if (done == 0) return;
  std::vector<int> world_ranks(count);
  for (std::size_t i = 0; i < count; ++i) world_ranks[static_cast<std::size_t>(comm.members[2 * i])] = comm.members[2 * i + 1];
  if (comm.rank == 0) {
    for (std::size_t i = 1; i < count; ++i) {
      MPI_Send(comm.members.data(), static_cast<int>(2 * count), MPI_INT, comm.members[2 * i + 1], comm.tag + 1, MPI_COMM_WORLD);
    }
  }
  MPI_Group world, members;
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Group_incl(world, comm.size, world_ranks.data(), &members);
  MPI_Comm_create_group(MPI_COMM_WORLD, members, comm.tag, &comm.comm);
  MPI_Group_free(&members);
  MPI_Group_free(&world);
  comm.state = ncclSuccess;
}

}  // namespace

void lose_rank_after(int polls) { polls_until_lost = polls; }

}  // namespace longwave::simt

using namespace longwave::simt;

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess: return "no error";
    case ncclUnhandledCudaError: return "unhandled cuda error";
    case ncclSystemError: return "unhandled system error";
    case ncclInternalError: return "internal error";
    case ncclInvalidArgument: return "invalid argument";
    case ncclInvalidUsage: return "invalid usage";
    case ncclRemoteError: return "remote process exited or there was a network error";
    case ncclInProgress: return "operation in progress";
  }
  return "?";
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static int number = 0;
  Identity identity{};
  MPI_Comm_rank(MPI_COMM_WORLD, &identity.root);
  identity.tag = first_identity_tag + 2 * number++ % 8000;
  *id = {};
  std::memcpy(id->internal, &identity, sizeof identity);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config) {
  if (rank < 0 || rank >= ranks || config->blocking != 0) return ncclInvalidArgument;
  Identity identity;
  std::memcpy(&identity, id.internal, sizeof identity);
  *comm = new SimtNccl;
  (*comm)->rank = rank;
  (*comm)->size = ranks;
  (*comm)->root = identity.root;
  (*comm)->tag = identity.tag;
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* result) {
  if (comm->state == ncclInProgress) progress_initialisation(*comm);
  if (polls_until_lost > 0 && --polls_until_lost == 0) comm->state = ncclRemoteError;
  *result = comm->state;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  if (graphs_hold(comm)) {
    std::fprintf(stderr, "simt: ncclCommAbort: a graph has operations of the communicator; NCCL waits until it is destroyed\n");
    std::abort();
  }
  for (MPI_Request& request : comm->requests) {
    if (request == MPI_REQUEST_NULL) continue;
    MPI_Cancel(&request);
    MPI_Request_free(&request);
  }
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  ++group_depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (group_depth == 0) return ncclInvalidUsage;
  if (--group_depth == 0) enqueue_group();
  return ncclSuccess;
}

ncclResult_t ncclAllGather(const void* from, void* to, std::size_t count, ncclDataType_t, ncclComm_t comm, cudaStream_t stream) {
  return call({Call::all_gather, from, to, count, 0, false, comm, stream});
}

ncclResult_t ncclBroadcast(const void* from, void* to, std::size_t count, ncclDataType_t, int root, ncclComm_t comm,
                           cudaStream_t stream) {
  return call({Call::broadcast, from, to, count, root, false, comm, stream});
}

ncclResult_t ncclSend(const void* data, std::size_t count, ncclDataType_t, int peer, ncclComm_t comm, cudaStream_t stream) {
  return call({Call::message, data, nullptr, count, peer, true, comm, stream});
}

ncclResult_t ncclRecv(void* data, std::size_t count, ncclDataType_t, int peer, ncclComm_t comm, cudaStream_t stream) {
  return call({Call::message, nullptr, data, count, peer, false, comm, stream});
}
