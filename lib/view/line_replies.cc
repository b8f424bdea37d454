// Faults as JSON lines.
#include "lib/view/line_replies.h"

#include "lib/base/error_kinds.h"
#include "lib/base/json.h"

namespace nvllm::view {

LineAnswer fault_answer(const Fault& fault) {
    return {"{\"error\":{\"message\":" + json_quoted(fault.message) +
                ",\"type\":" + json_quoted(error_kind_row(fault.kind).name) + "}}",
            fault.kind};
}

}  // namespace nvllm::view
