#include "torture.h"

const struct method events[] = {
    {0},
};
