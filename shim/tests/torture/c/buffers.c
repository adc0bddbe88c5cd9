#include "torture.h"

const struct method buffers[] = {
    {0},
};
