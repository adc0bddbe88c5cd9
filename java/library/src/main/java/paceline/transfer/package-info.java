/**
 * Uploads and downloads to and from {@code paceline alcc serve}, above {@link paceline.alcc.AlccSocket}
 * (docs/design/transfer-wire.md). A file is resumed where it was, and appears at the server when it is whole and its hash equal.
 */
package paceline.transfer;
