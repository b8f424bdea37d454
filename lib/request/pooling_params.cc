// Names and limits of pooling parameters.
#include "lib/request/pooling_params.h"

#include <fmt/format.h>

namespace nvllm {

const char* pooling_kind_name(PoolingKind kind) {
    switch (kind) {
        case PoolingKind::last:
            return "last";
        case PoolingKind::mean:
            return "mean";
        case PoolingKind::cls:
            return "cls";
    }
    return "";
}

std::optional<Fault> PoolingParams::check(int64_t vector_size) const {
    if (!dimensions || (*dimensions >= 1 && *dimensions <= vector_size)) return std::nullopt;
    return Fault{ErrorKind::bad_data,
                 fmt::format("dimensions is {}; this model's vectors have 1 to {}", *dimensions,
                             vector_size)};
}

}  // namespace nvllm
