// Every MPI call goes through LONGWAVE_MPI: communicators return errors instead of ending the process, and an error becomes
// an Error that names the call, the rank, MPI's own words and the place.
#pragma once

#include <mpi.h>

namespace longwave {

// Throws unless code is MPI_SUCCESS. Misuse of MPI (a wrong count, rank, tag, a message longer than its buffer) is a bug of
// ours; whatever else MPI refuses means that a rank or the network is lost.
void check_mpi(int code, const char* call, const char* file, int line);

}  // namespace longwave

#define LONGWAVE_MPI(function, ...) ::longwave::check_mpi(function(__VA_ARGS__), #function, __FILE__, __LINE__)
