// Names and help of the inspection options.
#include "lib/engine/options/part_options.h"

namespace nvllm {

OptionList<InspectionOptions> inspection_options() {
    OptionList<InspectionOptions> list("engine");
    list.group("Inspection");
    list.add("inspect-socket", &InspectionOptions::socket,
             "Answer nvllm-inspect at this Unix socket, which only you can open.",
             value_name("PATH"), default_text("none"));
    return list;
}

}  // namespace nvllm
