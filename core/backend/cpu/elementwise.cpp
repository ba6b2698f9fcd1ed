#include "core/backend/cpu/elementwise_kernels.h"

namespace longwave {

LONGWAVE_DEFINE_KERNELS(ElementwiseKernels, elementwise_kernels)

}  // namespace longwave
