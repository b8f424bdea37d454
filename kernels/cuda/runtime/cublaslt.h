// cuBLASLt, opened when it is first needed: the module starts without it.
#pragma once

#include <cublasLt.h>

#include <string>

namespace nvllm::cuda {

// The functions that are called, or why there are none.
struct CublasLt {
    std::string fault;  // empty: the functions are there
    size_t version = 0;
    decltype(&cublasLtCreate) create = nullptr;
    decltype(&cublasLtMatmul) matmul = nullptr;
    decltype(&cublasLtMatmulAlgoGetHeuristic) find_algorithms = nullptr;
    decltype(&cublasLtMatmulAlgoCheck) check_algorithm = nullptr;
    decltype(&cublasLtMatmulDescCreate) make_operation = nullptr;
    decltype(&cublasLtMatmulDescSetAttribute) set_operation = nullptr;
    decltype(&cublasLtMatmulDescDestroy) end_operation = nullptr;
    decltype(&cublasLtMatrixLayoutCreate) make_layout = nullptr;
    decltype(&cublasLtMatrixLayoutDestroy) end_layout = nullptr;
    decltype(&cublasLtMatmulPreferenceCreate) make_preference = nullptr;
    decltype(&cublasLtMatmulPreferenceSetAttribute) set_preference = nullptr;
    decltype(&cublasLtMatmulPreferenceDestroy) end_preference = nullptr;
};

const CublasLt& cublaslt();

}  // namespace nvllm::cuda
