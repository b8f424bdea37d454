// Names, help and ranges of the options on alerts.
#include "lib/server/operations/alert_options.h"

namespace nvllm::server {
OptionList<AlertOptions> alert_options() {
    OptionList<AlertOptions> list("api");
    list.group("Alerts");
    list.add("alert-rules", &AlertOptions::rules,
             "Warn in the log when this begins to hold, such as 'nvllm_requests_in_flight > 100'; "
             "with one of > >= < <= == !=.",
             value_name("\"METRIC OP NUMBER\""));
    list.add("temperature-alert", &AlertOptions::temperature,
             "Warn in the log when a device is hotter than this.", value_name("CELSIUS"),
             range(0.0, 200.0), default_text("never"));
    return list;
}

}  // namespace nvllm::server
