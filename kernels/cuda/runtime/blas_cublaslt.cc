// Dense matmuls by cuBLASLt: a plan for each shape and its types, found once and kept.
//
// Matrices are row-major here and column-major there: y^T = W x^T, with W [in, out] as it lies,
// transposed, and x [in, tokens], y [out, tokens] as they lie. Under batch invariance one algorithm
// serves every number of rows of a matrix: chosen for kPlanRows of them, without splitting sums.
#include <cublasLt.h>
#include <cuda_runtime.h>

#include <atomic>
#include <compare>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "kernels/cuda/runtime/allocator.h"
#include "kernels/cuda/runtime/blas.h"
#include "kernels/cuda/runtime/cublaslt.h"
#include "kernels/error.h"

namespace nvllm::cuda {
namespace {

constexpr size_t kWorkspaceBytes = size_t{32} << 20;
constexpr int64_t kPlanRows = 128;
constexpr size_t kMaxPlans = 4096;

cudaDataType_t library_type(DType dtype) {
    if (dtype == DType::bf16) return CUDA_R_16BF;
    if (dtype == DType::f8_e4m3) return CUDA_R_8F_E4M3;
    if (dtype == DType::i8) return CUDA_R_8I;
    if (dtype == DType::i32) return CUDA_R_32I;
    return dtype == DType::f16 ? CUDA_R_16F : CUDA_R_32F;
}

// All that a plan depends on.
struct Shape {
    int64_t tokens, in, out, x_stride, y_stride;
    DType factors, bias_type, y_type;
    bool has_bias, accumulates, invariant;

    auto operator<=>(const Shape&) const = default;

    // Of each row of x, and of each of the weights.
    bool has_scales() const { return factors == DType::f8_e4m3; }
    bool are_integers() const { return factors == DType::i8; }
};

// Where a product's operands lie; scales of quantized values only.
struct Operands {
    const void* x;
    const void* weight;
    const void* bias;
    void* y;
    const float* x_scales = nullptr;
    const float* weight_scales = nullptr;
};

// The library's descriptions of a product, given back at the end.
class Description {
  public:
    Description(const CublasLt& library, const Shape& shape) : library_(library) {
        const cudaDataType_t factors = library_type(shape.factors);
        const bool integers = shape.are_integers();
        is_made_ = ok(library.make_operation(&operation,
                                             integers ? CUBLAS_COMPUTE_32I : CUBLAS_COMPUTE_32F,
                                             integers ? CUDA_R_32I : CUDA_R_32F)) &&
                   ok(library.make_layout(&weight, factors, as_size(shape.in), as_size(shape.out),
                                          shape.in)) &&
                   ok(library.make_layout(&x, factors, as_size(shape.in), as_size(shape.tokens),
                                          shape.x_stride)) &&
                   ok(library.make_layout(&y, library_type(shape.y_type), as_size(shape.out),
                                          as_size(shape.tokens), shape.y_stride)) &&
                   describe_operation(shape);
    }
    ~Description() {
        if (operation != nullptr) library_.end_operation(operation);
        for (cublasLtMatrixLayout_t layout : {weight, x, y}) {
            if (layout != nullptr) library_.end_layout(layout);
        }
    }
    Description(const Description&) = delete;
    Description& operator=(const Description&) = delete;

    bool is_made() const { return is_made_; }

    bool set_pointers(const Operands& operands) {
        return (operands.bias == nullptr ||
                set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, operands.bias)) &&
               (operands.x_scales == nullptr ||
                (set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, operands.weight_scales) &&
                 set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, operands.x_scales)));
    }

    cublasLtMatmulDesc_t operation = nullptr;
    cublasLtMatrixLayout_t weight = nullptr;
    cublasLtMatrixLayout_t x = nullptr;
    cublasLtMatrixLayout_t y = nullptr;

  private:
    static bool ok(cublasStatus_t status) { return status == CUBLAS_STATUS_SUCCESS; }
    static uint64_t as_size(int64_t value) { return static_cast<uint64_t>(value); }

    template <typename T>
    bool set(cublasLtMatmulDescAttributes_t attribute, const T& value) {
        return ok(library_.set_operation(operation, attribute, &value, sizeof(value)));
    }

    bool describe_operation(const Shape& shape) {
        if (!set(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T)) return false;
        if (shape.has_scales() && !describe_scales()) return false;
        if (!shape.has_bias) return true;
        return set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS) &&
               set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, library_type(shape.bias_type));
    }

    // An algorithm is chosen for scales that lie somewhere; nothing reads them then.
    bool describe_scales() {
        alignas(16) static const float somewhere[4] = {};
        const float* const scales = somewhere;
        const int32_t each_row = CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F;
        return set(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, each_row) &&
               set(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, each_row) &&
               set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, scales) &&
               set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, scales);
    }

    const CublasLt& library_;
    bool is_made_ = false;
};

// The algorithm that the library thinks fastest for a shape; empty: it takes no such product.
std::optional<cublasLtMatmulAlgo_t> find_algorithm(const CublasLt& library, cublasLtHandle_t handle,
                                                   const Shape& shape) {
    Shape planned = shape;
    if (shape.invariant) planned.tokens = kPlanRows;
    const Description product(library, planned);
    if (!product.is_made()) return std::nullopt;
    cublasLtMatmulPreference_t preference = nullptr;
    if (library.make_preference(&preference) != CUBLAS_STATUS_SUCCESS) return std::nullopt;
    library.set_preference(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &kWorkspaceBytes,
                           sizeof(kWorkspaceBytes));
    if (shape.invariant) {
        const uint32_t no_splits = CUBLASLT_REDUCTION_SCHEME_NONE;
        library.set_preference(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &no_splits,
                               sizeof(no_splits));
    }
    cublasLtMatmulHeuristicResult_t best{};
    int num_found = 0;
    const cublasStatus_t status =
        library.find_algorithms(handle, product.operation, product.weight, product.x, product.y,
                                product.y, preference, 1, &best, &num_found);
    library.end_preference(preference);
    if (status != CUBLAS_STATUS_SUCCESS || num_found == 0) return std::nullopt;
    return best.algo;
}

// Receives warnings about slow matmuls; null before warn_about_blas().
std::atomic<void (*)(const char*)> warning_listener{nullptr};

// An algorithm was chosen for matrices of that shape, and these lie where it does not take them.
void warn_of_refusal(const Shape& shape, cublasStatus_t status) {
    static std::atomic<bool> is_said{false};
    const auto warn = warning_listener.load();
    if (warn == nullptr || is_said.exchange(true)) return;
    warn(("cuBLASLt refused a product that it had planned (" + std::to_string(shape.tokens) +
          " rows of " + std::to_string(shape.in) + " by " + std::to_string(shape.out) +
          ", status " + std::to_string(status) +
          "): such products are computed by kernels of the module from now on, slower")
             .c_str());
}

// Plans and workspaces of one device. One product at a time is laid out, as plans' descriptions
// hold the bias of the product that comes next.
class Products {
  public:
    explicit Products(int device) : device_(device) {
        if (library_.fault.empty() && library_.create(&handle_) != CUBLAS_STATUS_SUCCESS) {
            handle_ = nullptr;
        }
    }

    bool takes(const Shape& shape) {
        if (handle_ == nullptr) return false;
        const std::lock_guard lock(mutex_);
        return plan_for(shape).algorithm.has_value();
    }

    bool multiply(const Context& context, const Shape& shape, const Operands& operands) {
        if (handle_ == nullptr) return false;
        const std::lock_guard lock(mutex_);
        Plan& plan = plan_for(shape);
        if (!plan.algorithm || !plan.product->set_pointers(operands)) return false;
        const float factors[2] = {1.0f, shape.accumulates ? 1.0f : 0.0f};
        const int32_t whole_factors[2] = {1, shape.accumulates ? 1 : 0};
        const bool integers = shape.are_integers();
        const void* const alpha = integers ? static_cast<const void*>(whole_factors) : factors;
        const void* const beta =
            integers ? static_cast<const void*>(whole_factors + 1) : factors + 1;
        const cublasStatus_t status = library_.matmul(
            handle_, plan.product->operation, alpha, operands.weight, plan.product->weight,
            operands.x, plan.product->x, beta, operands.y, plan.product->y, operands.y,
            plan.product->y, &*plan.algorithm, workspace_of(context.stream), kWorkspaceBytes,
            static_cast<cudaStream_t>(context.stream));
        if (status == CUBLAS_STATUS_SUCCESS) return true;
        // Nothing was put into the stream: the kernels take this shape from now on.
        plan.algorithm.reset();
        warn_of_refusal(shape, status);
        return false;
    }

  private:
    struct Plan {
        std::unique_ptr<Description> product;
        std::optional<cublasLtMatmulAlgo_t> algorithm;
    };

    Plan& plan_for(const Shape& shape) {
        const auto known = plans_.find(shape);
        if (known != plans_.end()) return known->second;
        if (plans_.size() >= kMaxPlans) plans_.clear();
        Plan plan;
        plan.product = std::make_unique<Description>(library_, shape);
        if (plan.product->is_made()) plan.algorithm = algorithm_for(shape);
        return plans_.emplace(shape, std::move(plan)).first->second;
    }

    std::optional<cublasLtMatmulAlgo_t> algorithm_for(const Shape& shape) {
        if (!shape.invariant) return find_algorithm(library_, handle_, shape);
        Shape any_rows = shape;
        any_rows.tokens = kPlanRows;
        const auto known = invariant_.find(any_rows);
        if (known != invariant_.end()) return known->second;
        return invariant_.emplace(any_rows, find_algorithm(library_, handle_, any_rows))
            .first->second;
    }

    void* workspace_of(void* stream) {
        void*& workspace = workspaces_[stream];
        if (workspace == nullptr) workspace = allocate(device_, kWorkspaceBytes);
        return workspace;
    }

    const CublasLt& library_ = cublaslt();
    int device_;
    cublasLtHandle_t handle_ = nullptr;
    std::mutex mutex_;
    std::map<Shape, Plan> plans_;
    std::map<Shape, std::optional<cublasLtMatmulAlgo_t>> invariant_;
    std::map<void*, void*> workspaces_;  // by stream
};

// Never destroyed: at the end of a process the driver may be gone before it.
Products& products_of(int device) {
    static std::mutex mutex;
    static auto& all = *new std::map<int, Products>();
    const std::lock_guard lock(mutex);
    return all.try_emplace(device, device).first->second;
}

// The library reads sixteen bytes at a time.
bool is_aligned(const ConstTensorView& view) {
    const auto bytes = static_cast<uint64_t>(view.stride(0)) * dtype_bytes(view.dtype);
    return reinterpret_cast<uintptr_t>(view.data) % 16 == 0 && bytes % 16 == 0;
}

Shape shape_of(const ConstTensorView& x, const ConstTensorView& weight, const ConstTensorView& bias,
               ops::MatmulOutput output, const TensorView& y) {
    Shape shape{};
    shape.tokens = x.dim(0);
    shape.in = x.dim(1);
    shape.out = weight.dim(0);
    shape.x_stride = x.stride(0);
    shape.y_stride = y.stride(0);
    shape.factors = x.dtype;
    shape.bias_type = bias.dtype;
    shape.y_type = y.dtype;
    shape.has_bias = bias.data != nullptr;
    shape.accumulates = output == ops::MatmulOutput::accumulate;
    return shape;
}
Shape shape_of(const ScaledMmArgs& product) {
    return shape_of(product.x, product.weight, product.bias, product.output, product.y);
}

}  // namespace

std::string describe_blas() {
    const CublasLt& library = cublaslt();
    if (!library.fault.empty()) {
        return "no cuBLASLt (" + library.fault + "): products by our own kernels, slower";
    }
    return "cuBLASLt " + std::to_string(library.version / 10000) + "." +
           std::to_string(library.version / 100 % 100);
}

void warn_about_blas(void (*warn)(const char* sentence)) {
    static std::atomic<bool> is_said{false};
    warning_listener = warn;
    const std::string& fault = cublaslt().fault;
    if (fault.empty() || is_said.exchange(true)) return;
    warn((fault + ": products of many rows are computed by kernels of the module, several times "
                  "slower; put the folder of the CUDA toolkit's libraries into LD_LIBRARY_PATH")
             .c_str());
}

bool multiply_by_library(const Context& context, const ConstTensorView& x,
                         const ConstTensorView& weight, const ConstTensorView& bias,
                         DType compute_type, ops::MatmulOutput output, bool invariant,
                         const TensorView& y) {
    if (x.dtype != compute_type || weight.dtype != compute_type) return false;
    if (!is_aligned(x) || !is_aligned(weight) || !is_aligned(y)) return false;
    Shape shape = shape_of(x, weight, bias, output, y);
    shape.invariant = invariant;
    return products_of(context.device.index)
        .multiply(context, shape, {x.data, weight.data, bias.data, y.data});
}

bool library_takes_scaled_mm(const Context& context, const ScaledMmArgs& product) {
    if (!is_aligned(product.x) || !is_aligned(product.weight) || !is_aligned(product.y)) {
        return false;
    }
    return products_of(context.device.index).takes(shape_of(product));
}

void scaled_mm_by_library(const Context& context, const ScaledMmArgs& product) {
    const Operands operands{product.x.data, product.weight.data, product.bias.data,
                            product.y.data, product.x_scales,    product.weight_scales};
    NVLLM_CHECK(products_of(context.device.index).multiply(context, shape_of(product), operands),
                "cuBLASLt no longer multiplies such codes");
}

}  // namespace nvllm::cuda
