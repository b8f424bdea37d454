// What all kinds of launchers do alike.
#include "lib/execute/ranks/rank_launcher.h"

#include "lib/parallel/rank_groups.h"

namespace nvllm {

std::vector<GroupIdBytes> RankLauncher::group_ids(const RankSetup& setup) {
    return make_group_ids(collectives_of(setup), setup.sizes, setup.sharing.count);
}

}  // namespace nvllm
