#include "jobs/run_directory/build_info.h"

#include <fmt/format.h>
#include <gnu/libc-version.h>
#include <mpi.h>
#include <oneapi/dnnl/dnnl.h>

#include "jobs/version.h"

namespace longwave {
namespace {

std::string mpi_version() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  if (MPI_Get_library_version(text, &length) != MPI_SUCCESS) return "unknown";  // allowed before MPI_Init
  const std::string all(text);
  return all.substr(0, all.find(','));  // "Open MPI v4.1.4"; the rest tells of its packaging
}

BuildInfo gather() {
  const dnnl_version_t& dnnl = *dnnl_version();
  BuildInfo info;
  info.version = version();
  info.commit = commit();
  info.build_type = LONGWAVE_BUILD_TYPE;
  info.compiler = LONGWAVE_COMPILER;
  info.libraries = {{"oneDNN", fmt::format("{}.{}.{}", dnnl.major, dnnl.minor, dnnl.patch)},
                    {"MPI", mpi_version()},
                    {"C library", gnu_get_libc_version()}};
  return info;
}

}  // namespace

const BuildInfo& build_info() {
  static const BuildInfo info = gather();
  return info;
}

}  // namespace longwave
