// Names, help and ranges of the options on files and batches.
#include "lib/server/batches/batch_options.h"

namespace nvllm::server {

OptionList<BatchOptions> batch_options() {
    OptionList<BatchOptions> list("api");
    list.group("Batches");
    list.add("batch-dir", &BatchOptions::directory,
             "Folder of /v1/files and /v1/batches, which goes on with unfinished batches at the "
             "next start.",
             value_name("DIR"), default_text("none: both are off"));
    list.add("batch-concurrency", &BatchOptions::concurrency,
             "Lines of a batch that are computed at once.", range(1, 16384));
    list.add("max-batch-storage", &BatchOptions::max_stored_bytes,
             "Bytes that the files in --batch-dir may have together.", counts_bytes(),
             at_least(1024));
    return list;
}

}  // namespace nvllm::server
