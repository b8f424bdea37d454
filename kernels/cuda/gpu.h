// What kernels know of the GPU: the one header of its kind that .cu files include.
//
// Under nvcc these are CUDA's headers and PTX; for any other compiler an emulation of the execution
// model on the host, with the same names. Kernel files use nothing else of CUDA: no <<<>>>, no asm,
// no extern __shared__, no __CUDA_ARCH__.
#pragma once

#ifdef __CUDACC__
#include "kernels/cuda/primitives/ptx/async_copy.h"
#include "kernels/cuda/primitives/ptx/bulk_copy.h"
#include "kernels/cuda/primitives/ptx/launch.h"
#include "kernels/cuda/primitives/ptx/math.h"
#include "kernels/cuda/primitives/ptx/matrix.h"
#include "kernels/cuda/primitives/ptx/memory.h"
#include "kernels/cuda/primitives/ptx/transaction_barrier.h"
#include "kernels/cuda/primitives/ptx/warp.h"
#include "kernels/cuda/primitives/ptx/warpgroup.h"
#include "kernels/cuda/primitives/ptx/words.h"
#else
#include "kernels/cuda_emulation/keywords.h"
// Words before what is written with them.
#include "kernels/cuda_emulation/async_copy.h"
#include "kernels/cuda_emulation/atomics.h"
#include "kernels/cuda_emulation/barrier.h"
#include "kernels/cuda_emulation/bulk_copy.h"
#include "kernels/cuda_emulation/launch.h"
#include "kernels/cuda_emulation/math.h"
#include "kernels/cuda_emulation/matrix.h"
#include "kernels/cuda_emulation/memory.h"
#include "kernels/cuda_emulation/shared_memory.h"
#include "kernels/cuda_emulation/thread.h"
#include "kernels/cuda_emulation/transaction_barrier.h"
#include "kernels/cuda_emulation/warp.h"
#include "kernels/cuda_emulation/warpgroup.h"
#endif

#include "kernels/cuda/primitives/convert.h"
#include "kernels/cuda/primitives/reduce.h"
