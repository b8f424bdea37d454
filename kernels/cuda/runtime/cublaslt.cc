// Opens libcublasLt of the toolkit that the module was compiled with.
#include "kernels/cuda/runtime/cublaslt.h"

#include "kernels/shared_library.h"

namespace nvllm::cuda {
namespace {

const std::string kName = "libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR);

template <typename Function>
void find(const SharedLibrary& library, const char* name, Function*& function, std::string& fault) {
    function = library.find<Function>(name);
    if (function == nullptr) fault = library.file + " has no " + name;
}

CublasLt open_cublaslt() {
    CublasLt functions;
    const SharedLibrary library =
        open_first_library({kName.c_str(), ("/usr/local/cuda/lib64/" + kName).c_str()});
    if (library.handle == nullptr) {
        functions.fault = kName + " cannot be opened";
        return functions;
    }
    std::string& fault = functions.fault;
    find(library, "cublasLtCreate", functions.create, fault);
    find(library, "cublasLtMatmul", functions.matmul, fault);
    find(library, "cublasLtMatmulAlgoGetHeuristic", functions.find_algorithms, fault);
    find(library, "cublasLtMatmulAlgoCheck", functions.check_algorithm, fault);
    find(library, "cublasLtMatmulDescCreate", functions.make_operation, fault);
    find(library, "cublasLtMatmulDescSetAttribute", functions.set_operation, fault);
    find(library, "cublasLtMatmulDescDestroy", functions.end_operation, fault);
    find(library, "cublasLtMatrixLayoutCreate", functions.make_layout, fault);
    find(library, "cublasLtMatrixLayoutDestroy", functions.end_layout, fault);
    find(library, "cublasLtMatmulPreferenceCreate", functions.make_preference, fault);
    find(library, "cublasLtMatmulPreferenceSetAttribute", functions.set_preference, fault);
    find(library, "cublasLtMatmulPreferenceDestroy", functions.end_preference, fault);
    decltype(&cublasLtGetVersion) version = nullptr;
    find(library, "cublasLtGetVersion", version, fault);
    if (version != nullptr) functions.version = version();
    return functions;
}

}  // namespace

const CublasLt& cublaslt() {
    static const CublasLt functions = open_cublaslt();
    return functions;
}

}  // namespace nvllm::cuda
