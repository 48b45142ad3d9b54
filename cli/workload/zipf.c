#include "cli/workload/zipf.h"

#include <math.h>

#include "base/core/alloc.h"
#include "base/core/random.h"

struct cli_zipf {
    size_t count;
    double cumulative[]; /* ends with 1 */
};

enum kvt_err
cli_zipf_new(struct cli_zipf **out, size_t count, double exponent)
{
    struct cli_zipf *zipf;
    double total = 0.0;

    *out = NULL;
    if (count == 0 || count > CLI_ZIPF_MAX || !(exponent >= 0.0 && exponent <= 4.0))
        return KVT_INVALID;
    zipf = kvt_calloc(1, sizeof(*zipf) + count * sizeof(zipf->cumulative[0]));
    if (zipf == NULL)
        return KVT_NOMEM;
    zipf->count = count;
    for (size_t i = 0; i < count; i++) {
        total += pow((double)(i + 1), -exponent);
        zipf->cumulative[i] = total;
    }
    for (size_t i = 0; i < count; i++)
        zipf->cumulative[i] /= total;
    *out = zipf;
    return KVT_OK;
}

void
cli_zipf_free(struct cli_zipf *zipf)
{
    kvt_free(zipf);
}

size_t
cli_zipf_draw(const struct cli_zipf *zipf, uint64_t *random)
{
    const double point = kvt_random_unit(random);
    size_t low = 0;
    size_t high = zipf->count - 1;

    /* The first rank whose cumulative share is above the point. */
    while (low < high) {
        const size_t middle = low + (high - low) / 2;

        if (zipf->cumulative[middle] > point)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}
