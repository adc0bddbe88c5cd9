#include "torture.h"

const struct method processes[] = {
    {0},
};
