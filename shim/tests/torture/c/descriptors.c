#include "torture.h"

const struct method descriptors[] = {
    {0},
};
