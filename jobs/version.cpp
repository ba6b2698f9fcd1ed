#include "jobs/version.h"

#include "longwave_commit.h"

namespace longwave {

const char* version() { return LONGWAVE_VERSION; }
const char* commit() { return LONGWAVE_COMMIT; }

}  // namespace longwave
