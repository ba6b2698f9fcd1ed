// Which program this is: what `longwave --version` prints and provenance.json keeps.
#pragma once

namespace longwave {

const char* version();  // "0.1.0"
// The commit it was built from, twelve digits, with "-dirty" when tracked files had changed; "unknown" outside git.
const char* commit();

}  // namespace longwave
