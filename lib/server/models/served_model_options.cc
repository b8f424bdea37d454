// Names and help of the options on models.
#include "lib/server/models/served_model_options.h"

namespace nvllm::server {
OptionList<ServedModelOptions> served_model_options() {
    OptionList<ServedModelOptions> list("api");
    list.group("Models");
    list.add("model", &ServedModelOptions::models,
             "Directory of a Hugging Face checkpoint, or org/name[@revision] in the local Hugging "
             "Face cache; NAME=MODEL to give it a name, repeated for several.",
             short_name('m'), value_name("[NAME=]MODEL"), positional(),
             default_text("the bundled demo"), refuses_empty());
    list.add("served-model-name", &ServedModelOptions::served_model_names,
             "Name of the model in the API; all are answered to.", value_name("NAME"),
             default_text("what --model says"), takes_several());
    list.add("backup-model", &ServedModelOptions::backup_model,
             "Takes the place of a model that goes on computing what are no numbers after its "
             "weights were read again.",
             value_name("MODEL"), default_text("none"));
    return list;
}

}  // namespace nvllm::server
