/** The tool of a person: {@code java -jar paceline-upload.jar HOST[:PORT] FILE}. */
package paceline.upload;
