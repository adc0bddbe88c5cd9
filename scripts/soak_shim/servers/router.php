<?php
// GET answers a file below the folder that is served, PUT with the SHA-256 of what came.
if ($_SERVER['REQUEST_METHOD'] !== 'PUT') {
    return false;
}
$hash = hash_init('sha256');
hash_update_stream($hash, fopen('php://input', 'rb'));
echo hash_final($hash);
