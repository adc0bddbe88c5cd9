# "GET NAME" is answered with the file, "PUT BYTES" and these with their SHA-256.
read -r word what
case $word in
GET) exec cat "$what" ;;
PUT) head -c "$what" | sha256sum | cut -d ' ' -f 1 ;;
esac
