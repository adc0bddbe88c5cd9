/** The example of an upload service on Android, from API 21 on. */
package paceline.android;
