// Every NCCL call is checked; what NCCL refuses, apart from wrong arguments of ours, means that a rank or the network is lost.
#pragma once

#include <nccl.h>

namespace longwave {

void check_nccl(ncclResult_t result, const char* call, const char* file, int line);

}  // namespace longwave

#define LONGWAVE_NCCL(function, ...) ::longwave::check_nccl(function(__VA_ARGS__), #function, __FILE__, __LINE__)
