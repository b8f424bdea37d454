// What kernels know of the GPU: the one header of its kind that .cu files include.
//
// Under nvcc these are CUDA's headers and PTX; for any other compiler an emulation of the execution
// model on the host, with the same names. Kernel files use nothing else of CUDA: no <<<>>>, no asm,
// no extern __shared__, no __CUDA_ARCH__.
#pragma once

#ifdef __CUDACC__
#include "kernels/cuda/ptx/async_copy.h"
#include "kernels/cuda/ptx/bulk_copy.h"
#include "kernels/cuda/ptx/launch.h"
#include "kernels/cuda/ptx/math.h"
#include "kernels/cuda/ptx/matrix.h"
#include "kernels/cuda/ptx/memory.h"
#include "kernels/cuda/ptx/transaction_barrier.h"
#include "kernels/cuda/ptx/warp.h"
#include "kernels/cuda/ptx/warpgroup.h"
#include "kernels/cuda/ptx/words.h"
#else
#include "kernels/cuda/emulation/keywords.h"
// Words before what is written with them.
#include "kernels/cuda/emulation/async_copy.h"
#include "kernels/cuda/emulation/atomics.h"
#include "kernels/cuda/emulation/barrier.h"
#include "kernels/cuda/emulation/bulk_copy.h"
#include "kernels/cuda/emulation/launch.h"
#include "kernels/cuda/emulation/math.h"
#include "kernels/cuda/emulation/matrix.h"
#include "kernels/cuda/emulation/memory.h"
#include "kernels/cuda/emulation/shared_memory.h"
#include "kernels/cuda/emulation/thread.h"
#include "kernels/cuda/emulation/transaction_barrier.h"
#include "kernels/cuda/emulation/warp.h"
#include "kernels/cuda/emulation/warpgroup.h"
#endif

#include "kernels/cuda/gpu/convert.h"
#include "kernels/cuda/gpu/reduce.h"
